/* The bare Apple's side of TLS: a certificate of its own, and the choice of HTTP/2. */
#include "internal.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_count,
                           const unsigned char *offered, unsigned offered_count, void *opaque)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    (void)ssl;
    (void)opaque;
    return SSL_select_next_proto((unsigned char **)chosen, chosen_count, ours, sizeof ours - 1,
                                 offered, offered_count) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_NOACK;
}

SSL_CTX *bench_open_tls(const char *path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    FILE *file = fopen(path, "w");
    if (!key || !certificate || !tls || !file)
        return NULL;
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 3600);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               (const unsigned char *)"bare Apple", -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_set_pubkey(certificate, key);
    X509_EXTENSION *name =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate, name, -1);
    X509_EXTENSION_free(name);
    bool is_made = X509_sign(certificate, key, EVP_sha256()) > 0 &&
                   PEM_write_X509(file, certificate) == 1 && fclose(file) == 0 &&
                   SSL_CTX_use_certificate(tls, certificate) == 1 &&
                   SSL_CTX_use_PrivateKey(tls, key) == 1;
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return is_made ? tls : NULL;
}
