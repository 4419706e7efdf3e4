extension TollwayCommand {
    /// Every verb, in the order of the help.
    ///
    /// One that is not built does not appear.
    static let verbs: [Verb] = [
        SimCommand.verb,
        DemoCommand.verb,
        BrokerCommand.verb,
        TokenDecodeCommand.verb,
        NotificationVerifyCommand.verb,
        TransactionVerifyCommand.verb,
        LinksCommand.check,
        TopicsCommand.plan,
        TopicsCommand.apply,
        LagCommand.verb,
        ConfigCommand.check,
        ConfigCommand.print,
    ]
}
