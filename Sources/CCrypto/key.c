#include "internal.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/sha.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The longest r or s of the curves we know (P-384), and the DER form of both. */
enum { FIELD_SIZE_MAX = 48, SIGNATURE_DER_SIZE_MAX = 128 };

int
ccrypto_curve(const EVP_PKEY *pkey)
{
	char name[64];

	if (EVP_PKEY_get_base_id(pkey) != EVP_PKEY_EC)
		return (0);
	if (EVP_PKEY_get_group_name(pkey, name, sizeof(name), NULL) != 1)
		return (0);
	return (OBJ_txt2nid(name));
}

static size_t
field_size(const EVP_PKEY *pkey)
{

	return (((size_t)EVP_PKEY_get_bits(pkey) + 7) / 8);
}

int
ccrypto_key_wrap(EVP_PKEY *pkey, ccrypto_key **key)
{

	if ((*key = calloc(1, sizeof(**key))) == NULL) {
		EVP_PKEY_free(pkey);
		return (CCRYPTO_ERROR_LIBRARY);
	}
	pthread_mutex_init(&(*key)->lock, NULL);
	(*key)->pkey = pkey;
	return (CCRYPTO_OK);
}

/** Wrap ${pkey} if it is whole and lies on P-256; take it over in any case. */
static int
wrap_p256(EVP_PKEY *pkey, int is_private, ccrypto_key **key)
{
	EVP_PKEY_CTX *context = NULL;
	int code = CCRYPTO_ERROR_FORM;

	if (ccrypto_curve(pkey) != CCRYPTO_P256) {
		code = CCRYPTO_ERROR_CURVE;
		goto failed;
	}
	if ((context = EVP_PKEY_CTX_new_from_pkey(NULL, pkey, NULL)) == NULL) {
		code = CCRYPTO_ERROR_LIBRARY;
		goto failed;
	}
	if ((is_private ? EVP_PKEY_pairwise_check(context) : EVP_PKEY_public_check(context)) != 1)
		goto failed;
	EVP_PKEY_CTX_free(context);
	ERR_clear_error();
	return (ccrypto_key_wrap(pkey, key));

failed:
	EVP_PKEY_CTX_free(context);
	EVP_PKEY_free(pkey);
	ERR_clear_error();
	return (code);
}

int
ccrypto_key_generate(int curve, ccrypto_key **key)
{
	EVP_PKEY *pkey;

	ERR_clear_error();
	pkey = EVP_PKEY_Q_keygen(NULL, NULL, "EC", OBJ_nid2sn(curve));
	ERR_clear_error();
	if (pkey == NULL)
		return (CCRYPTO_ERROR_LIBRARY);
	return (ccrypto_key_wrap(pkey, key));
}

/* OpenSSL would ask on the terminal; note instead that it wanted to. */
static int
refuse_passphrase(char *buffer, int size, int is_writing, void *was_asked)
{

	(void)buffer;
	(void)size;
	(void)is_writing;
	*(int *)was_asked = 1;
	return (-1);
}

int
ccrypto_key_read_pem(const uint8_t *pem, size_t count, int is_private, ccrypto_key **key)
{
	BIO *bio;
	EVP_PKEY *pkey;
	int was_asked = 0;

	ERR_clear_error();
	if (count > INT_MAX || (bio = BIO_new_mem_buf(pem, (int)count)) == NULL)
		return (CCRYPTO_ERROR_LIBRARY);
	pkey = is_private ? PEM_read_bio_PrivateKey(bio, NULL, refuse_passphrase, &was_asked)
	    : PEM_read_bio_PUBKEY(bio, NULL, refuse_passphrase, &was_asked);
	BIO_free(bio);
	ERR_clear_error();
	if (pkey == NULL)
		return (was_asked ? CCRYPTO_ERROR_ENCRYPTED : CCRYPTO_ERROR_FORM);
	return (wrap_p256(pkey, is_private, key));
}

void
ccrypto_key_free(ccrypto_key *key)
{

	if (key == NULL)
		return;
	EVP_PKEY_CTX_free(key->signer);
	EVP_MD_CTX_free(key->hasher);
	EVP_PKEY_free(key->pkey);
	pthread_mutex_destroy(&key->lock);
	free(key);
}

long
ccrypto_copy_out(BIO *bio, uint8_t *bytes, size_t capacity)
{
	char *held;
	long count = BIO_get_mem_data(bio, &held);

	if (count < 0 || (size_t)count > capacity)
		return (CCRYPTO_ERROR_SPACE);
	memcpy(bytes, held, (size_t)count);
	return (count);
}

long
ccrypto_key_write(const ccrypto_key *key, int form, uint8_t *bytes, size_t capacity)
{
	BIO *bio;
	long result = CCRYPTO_ERROR_LIBRARY;
	int ok = 0;

	ERR_clear_error();
	if ((bio = BIO_new(BIO_s_mem())) == NULL)
		goto done;
	switch (form) {
	case CCRYPTO_PRIVATE_PEM:
		ok = PEM_write_bio_PKCS8PrivateKey(bio, key->pkey, NULL, NULL, 0, NULL, NULL);
		break;
	case CCRYPTO_PUBLIC_PEM:
		ok = PEM_write_bio_PUBKEY(bio, key->pkey);
		break;
	}
	if (ok == 1)
		result = ccrypto_copy_out(bio, bytes, capacity);
done:
	BIO_free(bio);
	ERR_clear_error();
	return (result);
}

/** Turn the DER form of a signature into r and s of ${size} bytes each. */
static int
raw_from_der(const uint8_t *der, size_t der_count, size_t size, uint8_t *raw)
{
	const unsigned char *position = der;
	ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &position, (long)der_count);
	int ok;

	ok = pair != NULL &&
	    BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw, (int)size) == (int)size &&
	    BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw + size, (int)size) == (int)size;
	ECDSA_SIG_free(pair);
	return (ok);
}

/** Turn r and s of ${size} bytes each into the DER form; return its count, 0 on failure. */
static size_t
der_from_raw(const uint8_t *raw, size_t size, uint8_t der[SIGNATURE_DER_SIZE_MAX])
{
	ECDSA_SIG *pair = ECDSA_SIG_new();
	BIGNUM *r = BN_bin2bn(raw, (int)size, NULL);
	BIGNUM *s = BN_bin2bn(raw + size, (int)size, NULL);
	unsigned char *position = der;
	int count = 0;

	if (pair == NULL || r == NULL || s == NULL || ECDSA_SIG_set0(pair, r, s) != 1) {
		BN_free(r);
		BN_free(s);
		goto done;
	}
	if (i2d_ECDSA_SIG(pair, NULL) <= SIGNATURE_DER_SIZE_MAX)
		count = i2d_ECDSA_SIG(pair, &position);
done:
	ECDSA_SIG_free(pair);
	return (count > 0 ? (size_t)count : 0);
}

/** Make the contexts that ${key} signs with; the caller holds its lock. */
static int
prepare_signing(ccrypto_key *key)
{

	if (key->signer != NULL)
		return (1);
	key->hasher = key->hasher != NULL ? key->hasher : EVP_MD_CTX_new();
	key->signer = EVP_PKEY_CTX_new_from_pkey(NULL, key->pkey, NULL);
	if (key->hasher != NULL && key->signer != NULL && EVP_PKEY_sign_init(key->signer) == 1 &&
	    EVP_PKEY_CTX_set_signature_md(key->signer, ccrypto_md_sha256()) == 1)
		return (1);
	EVP_PKEY_CTX_free(key->signer);
	key->signer = NULL;
	return (0);
}

long
ccrypto_sign(ccrypto_key *key, const uint8_t *message, size_t count, uint8_t *signature,
    size_t capacity)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	uint8_t der[SIGNATURE_DER_SIZE_MAX];
	size_t der_count = sizeof(der);
	size_t size = field_size(key->pkey);
	long result = CCRYPTO_ERROR_LIBRARY;

	ERR_clear_error();
	if (2 * size > capacity)
		return (CCRYPTO_ERROR_SPACE);
	/* To set a context up anew for each signature costs a fifth as much as the signature. */
	pthread_mutex_lock(&key->lock);
	if (prepare_signing(key) && EVP_DigestInit_ex2(key->hasher, ccrypto_md_sha256(), NULL) == 1 &&
	    EVP_DigestUpdate(key->hasher, message, count) == 1 &&
	    EVP_DigestFinal_ex(key->hasher, digest, NULL) == 1 &&
	    EVP_PKEY_sign(key->signer, der, &der_count, digest, sizeof(digest)) == 1 &&
	    raw_from_der(der, der_count, size, signature))
		result = (long)(2 * size);
	pthread_mutex_unlock(&key->lock);
	ERR_clear_error();
	return (result);
}

int
ccrypto_verify(const ccrypto_key *key, const uint8_t *message, size_t count,
    const uint8_t *signature, size_t signature_count)
{
	uint8_t der[SIGNATURE_DER_SIZE_MAX];
	size_t der_count;
	size_t size = field_size(key->pkey);
	EVP_MD_CTX *context = NULL;
	int result = CCRYPTO_ERROR_LIBRARY;

	ERR_clear_error();
	if (size > FIELD_SIZE_MAX || signature_count != 2 * size)
		return (CCRYPTO_ERROR_MISMATCH);
	if ((der_count = der_from_raw(signature, size, der)) == 0)
		goto done;
	if ((context = EVP_MD_CTX_new()) == NULL)
		goto done;
	if (EVP_DigestVerifyInit(context, NULL, ccrypto_md_sha256(), NULL, key->pkey) != 1)
		goto done;
	/* 0 is a mismatch, negative a signature out of range (r or s is 0): both are a plain no. */
	result = EVP_DigestVerify(context, der, der_count, message, count) == 1
	    ? CCRYPTO_OK : CCRYPTO_ERROR_MISMATCH;
done:
	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return (result);
}
