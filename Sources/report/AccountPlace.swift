internal import TokenDomain

/// Where an account lies: which partition's state, under which key.
struct AccountPlace: Hashable {
    var partition: Int32
    var key: [UInt8]

    init(key: [UInt8], partition: Int32) {
        self.partition = partition
        self.key = key
    }

    /// The account of a token.
    init(_ id: TokenID, partition: Int32) {
        self.init(key: Debtor.key(of: id), partition: partition)
    }

    /// All bytes of the key at once: an array hashes them one by one.
    func hash(into hasher: inout Hasher) {
        unsafe key.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    }
}
