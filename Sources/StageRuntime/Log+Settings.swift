package import Telemetry

/// What workers say when they are told to read their settings files again.
extension Log {
    package func settingsWereReadAgain(_ file: AppsFile) {
        info("the settings files were read again", ("apps", .count(file.apps.count)))
    }

    package func settingsCannotBeReadAgain(_ fault: ConfigurationFault) {
        error(
            "a settings file cannot be read again; what was read before stays in force",
            ("because", .text(fault.sentence))
        )
    }
}
