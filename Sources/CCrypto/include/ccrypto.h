#pragma once

/*
 * Keys, hashes and certificates over OpenSSL's libcrypto, for the Swift target Crypto alone.
 *
 * Every function returns 0 for yes or done and a negative code for no, unless it says otherwise;
 * none keeps a pointer it was given.  A handle may be used by many threads at once, but for
 * ccrypto_hmac.  OpenSSL's error queue is empty when a function returns.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	CCRYPTO_OK = 0,
	CCRYPTO_ERROR_LIBRARY = -1,	/* OpenSSL could not: no memory, no randomness */
	CCRYPTO_ERROR_FORM = -2,	/* not the key, certificate or bundle that it should be */
	CCRYPTO_ERROR_CURVE = -3,	/* a key, but not on the curve asked for */
	CCRYPTO_ERROR_SPACE = -4,	/* the caller's buffer is too small */
	CCRYPTO_ERROR_MISMATCH = -5,	/* the signature is not by this key over this message */
	CCRYPTO_ERROR_ENCRYPTED = -6,	/* a key that wants a passphrase */
	CCRYPTO_ERROR_COUNT = -7,	/* more certificates than allowed, or none */
	CCRYPTO_ERROR_NO_ROOT = -8,	/* certificates, and each was issued by another */
};

enum { CCRYPTO_SHA1_SIZE = 20, CCRYPTO_SHA256_SIZE = 32 };
enum { CCRYPTO_SIGNATURE_SIZE_MAX = 96, CCRYPTO_ROOT_COUNT_MAX = 64 };

/* Curves, by OpenSSL's number. */
enum { CCRYPTO_P256 = 415, CCRYPTO_P384 = 715, CCRYPTO_SECP256K1 = 714 };

/** Forbid core dumps of this process, and that others of its user read its memory. */
int ccrypto_refuse_dumps(void);

/** Fill ${bytes} from the system's generator. */
int ccrypto_random(uint8_t *bytes, size_t count);

int ccrypto_sha1(const uint8_t *bytes, size_t count, uint8_t digest[CCRYPTO_SHA1_SIZE]);
int ccrypto_sha256(const uint8_t *bytes, size_t count, uint8_t digest[CCRYPTO_SHA256_SIZE]);
/** As many digests as there are texts; they lie side by side, each up to its end. */
int ccrypto_sha256_each(const uint8_t *bytes, const size_t *ends, size_t count, uint8_t *digests);

/* HMAC-SHA-256 under one key, for one thread at a time. */
typedef struct ccrypto_hmac ccrypto_hmac;

ccrypto_hmac *ccrypto_hmac_create(const uint8_t *key, size_t key_count);
int ccrypto_hmac_code(ccrypto_hmac *hmac, const uint8_t *bytes, size_t count,
    uint8_t code[CCRYPTO_SHA256_SIZE]);
void ccrypto_hmac_free(ccrypto_hmac *hmac);

/* A key on an elliptic curve: the private half or the public one alone. */
typedef struct ccrypto_key ccrypto_key;

/**
 * ccrypto_key_generate(curve, key) and its reader set ${key}, which the caller frees: a new key, or
 * one in PEM (private: PKCS#8 without passphrase; public: SubjectPublicKeyInfo).
 * The reader accepts P-256 alone.
 */
int ccrypto_key_generate(int curve, ccrypto_key **key);
int ccrypto_key_read_pem(const uint8_t *pem, size_t count, int is_private, ccrypto_key **key);
void ccrypto_key_free(ccrypto_key *key);

enum { CCRYPTO_PRIVATE_PEM, CCRYPTO_PUBLIC_PEM };

/** Write ${key} in ${form} to ${bytes}; return the count written, or a negative code. */
long ccrypto_key_write(const ccrypto_key *key, int form, uint8_t *bytes, size_t capacity);

/**
 * ECDSA with SHA-256, the signature in raw form: r and s, each as long as the curve's field.
 * Sign returns the count written (64 for P-256), or a negative code.  Verify: a signature of
 * another length is a mismatch.  Threads that sign with one key wait for each other.
 */
long ccrypto_sign(ccrypto_key *key, const uint8_t *message, size_t count, uint8_t *signature,
    size_t capacity);
int ccrypto_verify(const ccrypto_key *key, const uint8_t *message, size_t count,
    const uint8_t *signature, size_t signature_count);

typedef struct ccrypto_certificate ccrypto_certificate;

/**
 * Read one certificate in DER.  A byte after its end is an error of form, as is a key that is neither of
 * RSA nor on P-256 or P-384 with both coordinates.
 */
int ccrypto_certificate_read(const uint8_t *der, size_t count, ccrypto_certificate **certificate);
void ccrypto_certificate_free(ccrypto_certificate *certificate);

/** Write as DER, or as PEM; return the count written, or a negative code. */
long ccrypto_certificate_write_der(const ccrypto_certificate *certificate, uint8_t *bytes,
    size_t capacity);
long ccrypto_certificate_write_pem(const ccrypto_certificate *certificate, uint8_t *bytes,
    size_t capacity);

/** Return 1 if an extension ${oid} (dotted) is there, 0 if not, or a negative code. */
int ccrypto_certificate_has_extension(const ccrypto_certificate *certificate, const char *oid);

/** Return 1 if it is no authority and its keyUsage, where it has one, names digitalSignature; else 0. */
int ccrypto_certificate_may_sign_data(const ccrypto_certificate *certificate);

/** Set ${key} to the subject's public key if it lies on P-256. */
int ccrypto_certificate_public_key(const ccrypto_certificate *certificate, ccrypto_key **key);

/* The trusted roots. */
typedef struct ccrypto_roots ccrypto_roots;

/**
 * Read a bundle of 1 to ${CCRYPTO_ROOT_COUNT_MAX} certificates in PEM.  One of them at least must
 * be its own issuer: no path ends at another.
 */
int ccrypto_roots_read(const uint8_t *pem, size_t count, ccrypto_roots **roots);
size_t ccrypto_roots_count(const ccrypto_roots *roots);
void ccrypto_roots_free(ccrypto_roots *roots);

/**
 * ccrypto_roots_have_issuer(roots, certificate):
 * Return 1 if one of ${roots} has the name that ${certificate} gives for its issuer, else 0.
 */
int ccrypto_roots_have_issuer(const ccrypto_roots *roots, const ccrypto_certificate *certificate);

/** Return 1 if ${certificate} gives the name of ${issuer} for its issuer, else 0. */
int ccrypto_certificate_names_issuer(const ccrypto_certificate *certificate,
    const ccrypto_certificate *issuer);

/** Return CCRYPTO_OK if the key of ${issuer} signed ${certificate}, else CCRYPTO_ERROR_MISMATCH. */
int ccrypto_certificate_is_signed_by(const ccrypto_certificate *certificate,
    const ccrypto_certificate *issuer);

/* What a path was found to be. */
struct ccrypto_path {
	int64_t valid_from;	/* UNIX seconds: the latest notBefore of the three */
	int64_t valid_to;	/* UNIX seconds: the earliest notAfter of the three, itself valid */
	int reason;		/* OpenSSL's X509_V_ERR_ number where the path is refused, else 0 */
};

/**
 * ccrypto_path_verify(roots, leaf, intermediate, unix_seconds, path):
 * Validate, as RFC 5280 has it, the path ${leaf}, ${intermediate}, one of ${roots} at the time
 * given.  It must have exactly these three members.  CCRYPTO_ERROR_MISMATCH is a refusal.
 */
int ccrypto_path_verify(const ccrypto_roots *roots, const ccrypto_certificate *leaf,
    const ccrypto_certificate *intermediate, int64_t unix_seconds, struct ccrypto_path *path);

/** OpenSSL's words for ${reason}. */
const char *ccrypto_path_reason(int reason);

/* A certificate to be made, for tests and for the simulator. */
struct ccrypto_template {
	const char *common_name;
	int64_t not_before;	/* UNIX seconds */
	int64_t not_after;
	uint64_t serial;
	int is_authority;	/* -1: no basicConstraints at all */
	int path_length_max;	/* -1: none */
	const char *key_usage;	/* as in openssl's configuration; null: none */
	const char *name_constraints;	/* likewise */
	const char *marker_oids;	/* dotted, blanks between; value NULL, not critical */
	const char *critical_oids;	/* likewise, critical */
	int has_key_identifiers;
};

/**
 * ccrypto_certificate_issue(template, subject, issuer, issuer_key, certificate):
 * Make a certificate for the key ${subject}, signed with ${issuer_key} in the name of ${issuer};
 * where that is null, in its own.
 */
int ccrypto_certificate_issue(const struct ccrypto_template *template, const ccrypto_key *subject,
    const ccrypto_certificate *issuer, const ccrypto_key *issuer_key,
    ccrypto_certificate **certificate);
