#pragma once

#include "ccrypto.h"

#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/x509.h>

#include <pthread.h>

_Static_assert(OPENSSL_VERSION_MAJOR == 3, "written for OpenSSL 3");
_Static_assert(CCRYPTO_P256 == NID_X9_62_prime256v1, "Swift names curves by these numbers");
_Static_assert(CCRYPTO_P384 == NID_secp384r1, "Swift names curves by these numbers");
_Static_assert(CCRYPTO_SECP256K1 == NID_secp256k1, "Swift names curves by these numbers");

struct ccrypto_key {
	EVP_PKEY *pkey;
	/* For one signature at a time; made with the first. */
	pthread_mutex_t lock;
	EVP_PKEY_CTX *signer;
	EVP_MD_CTX *hasher;
};

struct ccrypto_certificate {
	X509 *x509;
};

struct ccrypto_roots {
	X509_STORE *store;
	size_t count;
};

/** Set ${digest} to SHA-1 and SHA-256, fetched once: a fetch costs more than a short hash. */
const EVP_MD *ccrypto_md_sha1(void);
const EVP_MD *ccrypto_md_sha256(void);

/** The curve of ${pkey} by OpenSSL's number, or 0 where it has none that is named. */
int ccrypto_curve(const EVP_PKEY *pkey);

/** Wrap ${pkey}, of which one reference is taken over, also on failure. */
int ccrypto_key_wrap(EVP_PKEY *pkey, ccrypto_key **key);

/** Copy what ${bio} holds to ${bytes}; return its count, or CCRYPTO_ERROR_SPACE. */
long ccrypto_copy_out(BIO *bio, uint8_t *bytes, size_t capacity);
