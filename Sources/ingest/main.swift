IngestRun.main()
