internal import StageRuntime
internal import Telemetry
internal import TokenDomain

WorkerRun.main(.decode) { services in
    let file = try services.configuration.requiredFile(.appsFile)
    return DecodeStage(apps: try AppsFile.load(file)) {
        do throws(ConfigurationFault) {
            let apps = try AppsFile.load(file)
            let count = Int64(apps.apps.count)
            services.log.info("the apps file was read again", ("apps", .integer(count)))
            return apps
        } catch {
            services.log.error(
                "the apps file is not as it should be; the old one stays",
                ("because", .text(error.sentence))
            )
            return nil
        }
    }
}
