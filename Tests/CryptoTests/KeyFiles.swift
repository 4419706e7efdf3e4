/// Keys made for these tests with the command `openssl`; they open nothing.
enum KeyFiles {
    static let p256 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgb0aUVFqOQpPsRtO7
        fostcPGwI9gVEkGtUR5nZxG2QcihRANCAAQBkjgOQP2avu3R8f3pcDXTpIjZM1Ja
        9VI1t6A8mbZWEIAtYw1UhsHNqbdQ+uysSarXnVdq+QETAEmbO2VMzdwP
        -----END PRIVATE KEY-----

        """
    static let p256Public = """
        -----BEGIN PUBLIC KEY-----
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEAZI4DkD9mr7t0fH96XA106SI2TNS
        WvVSNbegPJm2VhCALWMNVIbBzam3UPrsrEmq151XavkBEwBJmztlTM3cDw==
        -----END PUBLIC KEY-----

        """
    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjUt1dpJZLOQAICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEHkf3hUB8nGHWJikSN7tukkEgZDr
        eIV7DUseOK1fWmmRUTZdLxzlwejWsh3FgIlRbKBwwVcnWjKLiU6tYZHabcNNk/44
        IlWAnoJ42SPtFQSIXVNpvQ2AxBuB07MoRtcBLSVY1IRgu7CFhSFU49KCz5LKkg1W
        pYKVHzYZbGMS5l+hXa2D8kNdFwcCXptlnn3eRX/5AF03exSObH4y3KZHqoX1FqM=
        -----END ENCRYPTED PRIVATE KEY-----

        """
    static let p384 = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDAVAyEGYAGBC1Be24sn
        eV/fdGNkhgQ8GI6w+xusbZslii/P/F+A3xp3hICqdYJUD/ehZANiAARcP07w837R
        zRI4Y5ZjnEJI1htLdupeurpkzAGhAdxzvwQRW3Ka6pZEpNEvctEGs44bPYW3AGs0
        DrZZKTTjc/af5DFkTbNGTMRYbswzeBxUBjumCIXaaU8VzdcSz9yiYFM=
        -----END PRIVATE KEY-----

        """
    static let ed25519 = """
        -----BEGIN PRIVATE KEY-----
        MC4CAQAwBQYDK2VwBCIEIK0h6ALj2+4r5s4OiPWiHFNbRcVQkBhv+Yd6CGccDT2F
        -----END PRIVATE KEY-----

        """
}
