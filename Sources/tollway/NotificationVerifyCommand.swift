/// `tollway notification verify`: whether a signed notification is Apple's, and what it says.
enum NotificationVerifyCommand {
    static let verb = Verb(
        words: ["notification", "verify"],
        summary: "whether a signed notification is Apple's, and its content",
        operands: "[FILE | -]",
        operandCountMax: 1,
        options: SignedDataCheck.options,
        details: SignedDataCheck.details,
        run: { (invocation) throws(CommandFailure) in
            try SignedDataCheck.run(invocation, .notification)
        }
    )
}
