/// `tollway transaction verify`: whether a signed transaction is Apple's, and what it says.
enum TransactionVerifyCommand {
    static let verb = Verb(
        words: ["transaction", "verify"],
        summary: "whether a signed transaction is Apple's, and its content",
        operands: "[FILE | -]",
        operandCountMax: 1,
        options: SignedDataCheck.options,
        details: SignedDataCheck.details,
        run: { (invocation) throws(CommandFailure) in
            try SignedDataCheck.run(invocation, .transaction)
        }
    )
}
