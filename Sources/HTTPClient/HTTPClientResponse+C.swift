internal import CHTTPClient

extension HTTPClientResponse {
    /// Copies what C lends only until the next run.
    init(copying response: chttp_client_response, tag: UInt64) {
        id = HTTPClientRequest.ID(number: unsafe response.id)
        self.tag = tag
        switch unsafe response.outcome {
        case CHTTP_CLIENT_ANSWERED: outcome = unsafe .answered(Answer(copying: response))
        case CHTTP_CLIENT_NOT_SENT:
            outcome = unsafe .failed(Failure(copying: response, kind: .notSent))
        default: outcome = unsafe .failed(Failure(copying: response, kind: .doubtful))
        }
    }
}

extension HTTPClientResponse.Failure {
    fileprivate init(copying response: chttp_client_response, kind: Kind) {
        self.kind = kind
        message = unsafe String(cString: response.message)
        code =
            switch unsafe chttp_client_error_of(response.error) {
            case CHTTP_CLIENT_ERROR_URL: "http.url"
            case CHTTP_CLIENT_ERROR_RESOLVE: "http.resolve"
            case CHTTP_CLIENT_ERROR_CONNECT: "http.connect"
            case CHTTP_CLIENT_ERROR_TLS: "http.tls"
            case CHTTP_CLIENT_ERROR_TLS_UNTRUSTED: "http.tls_untrusted"
            case CHTTP_CLIENT_ERROR_TIMEOUT: "http.timeout"
            case CHTTP_CLIENT_ERROR_RESET: "http.reset"
            case CHTTP_CLIENT_ERROR_PROTOCOL: "http.protocol"
            default: "http.other"
            }
    }
}

extension HTTPClientResponse.Answer {
    fileprivate init(copying response: chttp_client_response) {
        status = unsafe Int(response.status)
        isCut = unsafe response.is_cut != 0
        httpMajorVersion = unsafe Int(response.http_major_version)
        body = unsafe Array(
            UnsafeBufferPointer(start: response.body, count: response.body_byte_count)
        )
        headerLines = unsafe Array(
            UnsafeRawBufferPointer(start: response.headers, count: response.header_byte_count)
        )
    }
}
