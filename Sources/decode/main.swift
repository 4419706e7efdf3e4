internal import StageRuntime
internal import TokenDomain

WorkerRun.main(.decode) { services in
    let file = try services.configuration.requiredFile(.appsFile)
    return DecodeStage(apps: try AppsFile.load(file)) { () throws(ConfigurationFault) in
        do throws(ConfigurationFault) {
            let apps = try AppsFile.load(file)
            services.log.settingsWereReadAgain(apps)
            return apps
        } catch {
            services.log.settingsCannotBeReadAgain(error)
            throw error
        }
    }
}
