internal import StageRuntime
internal import Telemetry
internal import TokenDomain

WorkerRun.main(.decode) { services in
    let file = try services.configuration.requiredFile(.appsFile)
    return DecodeStage(apps: try AppsFile.load(file)) {
        do throws(ConfigurationFault) {
            let apps = try AppsFile.load(file)
            let count = Int64(apps.apps.count)
            services.log.info("the settings files were read again", ("apps", .integer(count)))
            return apps
        } catch {
            services.log.error(
                "a settings file cannot be read again; what was read before stays in force",
                ("because", .text(error.sentence))
            )
            return nil
        }
    }
}
