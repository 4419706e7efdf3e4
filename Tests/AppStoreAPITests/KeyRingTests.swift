import AppStoreAPI
import Crypto
import Testing
import TokenDomain

@Suite struct `The keys of an app` {
    private let production = Lane(appAppleID: 1, environment: .production)
    private let sandbox = Lane(appAppleID: 1, environment: .sandbox)

    /// A file of keys that a test can change.
    private final class File {
        var keyIDs: [String]
        /// Of the list, and left out by who loads it.
        var unreadable: Set<String> = []
        private(set) var changes: [KeyRing.Change] = []
        private let key: P256PrivateKey

        init(_ keyIDs: [String]) throws {
            self.keyIDs = keyIDs
            key = try P256PrivateKey.generate()
        }

        var ring: KeyRing {
            KeyRing(
                load: { [self] _ in
                    keyIDs.enumerated().filter { !unreadable.contains($1) }.map { index, keyID in
                        AppStoreClient.Signer(
                            bundleID: "b",
                            issuerID: "i",
                            keyID: keyID,
                            key: key,
                            number: index + 1
                        )
                    }
                },
                changed: { [self] in changes.append($0) }
            )
        }
    }

    @Test(arguments: [401, 403])
    func `are tried in turn until Apple accepts one`(status: Int) throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        #expect(ring.signer(of: production)?.keyID == "new")
        ring.heard(httpStatus: status, of: production, signedWith: "new")
        #expect(ring.signer(of: production)?.keyID == "old")
        // Signed before, answered after: it says nothing about the key in use.
        ring.heard(httpStatus: status, of: production, signedWith: "new")
        #expect(ring.signer(of: production)?.keyID == "old")
        ring.heard(httpStatus: status, of: production, signedWith: "old")
        #expect(ring.signer(of: production)?.keyID == "new")
        #expect(file.changes.map(\.refused) == ["new", "old"])
        #expect(file.changes.map(\.number) == [2, 1])
    }

    /// The clock was wrong: none was refused for its own sake.
    @Test func `are tried from the first again once one is accepted after all were refused`() throws
    {
        let file = try File(["new", "old"])
        let ring = file.ring
        for keyID in ["new", "old", "new"] {
            ring.heard(httpStatus: 503, of: production, signedWith: keyID)
            ring.heard(httpStatus: 401, of: production, signedWith: keyID)
        }
        #expect(ring.signer(of: production)?.keyID == "old")
        ring.heard(httpStatus: 200, of: production, signedWith: "old")
        #expect(ring.signer(of: production)?.keyID == "new")
        #expect(file.changes.map(\.number) == [2, 1, 2, 1])
        // It is refused all the same, and the other one is not.
        ring.heard(httpStatus: 401, of: production, signedWith: "new")
        ring.heard(httpStatus: 200, of: production, signedWith: "old")
        #expect(ring.signer(of: production)?.keyID == "old")
    }

    @Test func `are chosen for each world alone`() throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        ring.heard(httpStatus: 401, of: production, signedWith: "new")
        #expect(ring.signer(of: production)?.keyID == "old")
        #expect(ring.signer(of: sandbox)?.keyID == "new")
    }

    @Test(arguments: [200, 400, 404, 429, 500])
    func `stay where an answer says nothing against them`(status: Int) throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        ring.heard(httpStatus: status, of: production, signedWith: "new")
        #expect(ring.signer(of: production)?.keyID == "new")
    }

    @Test func `are tried from the first again once the list has changed`() throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        ring.heard(httpStatus: 401, of: production, signedWith: "new")
        // A probe reads the same list again: that is no change.
        ring.reload(appAppleID: 1)
        #expect(ring.signer(of: production)?.keyID == "old")
        file.keyIDs = ["newest", "old"]
        ring.reload(appAppleID: 1)
        #expect(ring.signer(of: production)?.keyID == "newest")
        #expect(file.changes.last?.refused == nil)
        file.keyIDs = []
        ring.reload(appAppleID: 1)
        #expect(ring.signer(of: production) == nil)
    }

    @Test func `are tried from the first again where somebody says so`() throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        ring.heard(httpStatus: 401, of: production, signedWith: "new")
        ring.startWithFirst(appAppleID: 1)
        #expect(ring.signer(of: production)?.keyID == "new")
        #expect(file.changes.last?.refused == nil && file.changes.last?.number == 1)
    }

    /// What is shown of a lane is the last change that was told.
    @Test func `are told to be the first again also where none is left`() throws {
        let file = try File(["new", "old"])
        let ring = file.ring
        ring.heard(httpStatus: 401, of: production, signedWith: "new")
        #expect(file.changes.last?.number == 2)
        file.keyIDs = []
        ring.reload(appAppleID: 1)
        #expect(file.changes.map(\.lane) == [production, production, sandbox])
        #expect(file.changes.last?.number == 1 && file.changes.last?.keyID == nil)
        file.keyIDs = ["new", "old"]
        ring.reload(appAppleID: 1)
        #expect(ring.signer(of: production)?.keyID == "new")
        #expect(file.changes.last?.number == 1)
    }

    @Test func `are told where they are read again before any was used`() throws {
        let file = try File(["new", "old"])
        file.unreadable = ["new"]
        file.ring.reload(appAppleID: 1)
        #expect(file.changes.map(\.number) == [2, 2])
    }

    /// Who replaces a key revokes the old one as soon as he is told that the new one signs.
    @Test func `keep their numbers where the first cannot be read`() throws {
        let file = try File(["old"])
        let ring = file.ring
        #expect(ring.signer(of: production)?.keyID == "old")
        file.keyIDs = ["new", "old"]
        file.unreadable = ["new"]
        ring.reload(appAppleID: 1)
        #expect(file.changes.map(\.keyID) == ["old", "old"])
        #expect(file.changes.map(\.number) == [2, 2])
        file.unreadable = []
        ring.reload(appAppleID: 1)
        #expect(file.changes.suffix(2).map(\.keyID) == ["new", "new"])
        #expect(file.changes.suffix(2).map(\.number) == [1, 1])
    }

    @Test func `leave one alone`() throws {
        let file = try File(["only"])
        let ring = file.ring
        ring.heard(httpStatus: 401, of: production, signedWith: "only")
        #expect(ring.signer(of: production)?.keyID == "only")
        #expect(file.changes.isEmpty)
    }
}
