extension TollwayCommand {
    /// Every verb, in the order of the help.
    ///
    /// One that is not built does not appear.
    static let verbs: [Verb] = [
        SimCommand.verb,
        DemoCommand.verb,
        BrokerCommand.verb,
        TokenDecodeCommand.verb,
        TokenTraceCommand.verb,
        NotificationVerifyCommand.verb,
        TransactionVerifyCommand.verb,
        LinksCommand.check,
        TopicsCommand.plan,
        TopicsCommand.apply,
        LagCommand.verb,
        TopCommand.verb,
        DoctorCommand.verb,
        OffsetsCommand.reset,
        TransactionsCommand.list,
        TransactionsCommand.repair,
        ReportCommand.request,
        LanesCommand.list,
        LanesCommand.pause,
        LanesCommand.resume,
        LanesCommand.reset,
        DeadLetterCommand.groups,
        DeadLetterCommand.list,
        DeadLetterCommand.show,
        DeadLetterCommand.count,
        ReplayCommand.plan,
        ReplayCommand.replay,
        DeadLetterCommand.export,
        ReplayCommand.discard,
        ConfigCommand.check,
        ConfigCommand.print,
        CompletionCommand.verb,
    ]
}
