internal import TokenDomain
internal import TokenWire

/// A token as an operator names it: by its id, by its text, or by the link that brought it.
enum TokenOperand {
    /// - Throws: exit 2 where nothing is named.
    static func id(_ operand: String) throws(CommandFailure) -> TokenID {
        guard !operand.isEmpty else {
            throw .usage("bad_value", "the token's id is empty")
        }
        return id(ofToken: operand.utf8.span) ?? id(ofLink: operand) ?? TokenID(operand)
    }

    /// The id in a token's text; nil for what is no token.
    static func id(ofToken text: Span<UInt8>) -> TokenID? {
        do throws(DecodeFault) {
            return try decodeToken(text).externalPurchaseID
        } catch {
            // An id is no token: nearly always so.
            return nil
        }
    }

    private static func id(ofLink text: String) -> TokenID? {
        do throws(DecodeFault) {
            return id(ofToken: Array(try TokenLink(reading: text.utf8.span).token.utf8).span)
        } catch {
            // Neither is it a link.
            return nil
        }
    }
}
