#include "internal.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/rand.h>

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

struct ccrypto_hmac {
	EVP_MAC_CTX *context;
};

static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;
static EVP_MD *sha1;
static EVP_MD *sha256;
static EVP_MAC *hmac_method;

/* What is fetched here lives as long as the process: there is no later moment to free it. */
static void
fetch(void)
{

	sha1 = EVP_MD_fetch(NULL, "SHA1", NULL);
	sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	hmac_method = EVP_MAC_fetch(NULL, "HMAC", NULL);
}

const EVP_MD *
ccrypto_md_sha1(void)
{

	pthread_once(&fetch_once, fetch);
	return (sha1);
}

const EVP_MD *
ccrypto_md_sha256(void)
{

	pthread_once(&fetch_once, fetch);
	return (sha256);
}

/* OpenSSL's errors are cleared where there are some: a clear costs as much as a hash does. */

int
ccrypto_random(uint8_t *bytes, size_t count)
{

	while (count > 0) {
		int part = count < INT_MAX ? (int)count : INT_MAX;

		if (RAND_bytes(bytes, part) != 1) {
			ERR_clear_error();
			return (CCRYPTO_ERROR_LIBRARY);
		}
		bytes += part;
		count -= (size_t)part;
	}
	return (CCRYPTO_OK);
}

static int
digest(const EVP_MD *md, const uint8_t *bytes, size_t count, uint8_t *out)
{

	if (md != NULL && EVP_Digest(bytes, count, out, NULL, md, NULL) == 1)
		return (CCRYPTO_OK);
	ERR_clear_error();
	return (CCRYPTO_ERROR_LIBRARY);
}

int
ccrypto_sha1(const uint8_t *bytes, size_t count, uint8_t out[CCRYPTO_SHA1_SIZE])
{

	return (digest(ccrypto_md_sha1(), bytes, count, out));
}

int
ccrypto_sha256(const uint8_t *bytes, size_t count, uint8_t out[CCRYPTO_SHA256_SIZE])
{

	return (digest(ccrypto_md_sha256(), bytes, count, out));
}

int
ccrypto_sha256_each(const uint8_t *bytes, const size_t *ends, size_t count, uint8_t *out)
{
	EVP_MD_CTX *context;
	size_t i, start;

	ERR_clear_error();
	if ((context = EVP_MD_CTX_new()) == NULL || ccrypto_md_sha256() == NULL)
		goto failed;
	for (i = start = 0; i < count; start = ends[i++]) {
		/* Without a method the context keeps the one it has, and its memory. */
		if (EVP_DigestInit_ex2(context, i == 0 ? ccrypto_md_sha256() : NULL, NULL) != 1 ||
		    EVP_DigestUpdate(context, bytes + start, ends[i] - start) != 1 ||
		    EVP_DigestFinal_ex(context, out + i * CCRYPTO_SHA256_SIZE, NULL) != 1)
			goto failed;
	}
	EVP_MD_CTX_free(context);
	return (CCRYPTO_OK);

failed:
	EVP_MD_CTX_free(context);
	ERR_clear_error();
	return (CCRYPTO_ERROR_LIBRARY);
}

ccrypto_hmac *
ccrypto_hmac_create(const uint8_t *key, size_t key_count)
{
	/* An empty key is legal, a null pointer would mean "the key as before". */
	static const uint8_t no_key[1];
	char name[] = "SHA256";
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
		OSSL_PARAM_construct_end(),
	};
	ccrypto_hmac *hmac;

	ERR_clear_error();
	pthread_once(&fetch_once, fetch);
	if ((hmac = calloc(1, sizeof(*hmac))) == NULL)
		goto failed;
	if (hmac_method == NULL || (hmac->context = EVP_MAC_CTX_new(hmac_method)) == NULL)
		goto failed_hmac;
	if (EVP_MAC_init(hmac->context, key_count > 0 ? key : no_key, key_count, parameters) != 1)
		goto failed_context;
	return (hmac);

failed_context:
	EVP_MAC_CTX_free(hmac->context);
failed_hmac:
	free(hmac);
failed:
	ERR_clear_error();
	return (NULL);
}

int
ccrypto_hmac_code(ccrypto_hmac *hmac, const uint8_t *bytes, size_t count,
    uint8_t code[CCRYPTO_SHA256_SIZE])
{
	size_t written = 0;

	if (EVP_MAC_init(hmac->context, NULL, 0, NULL) == 1 &&
	    EVP_MAC_update(hmac->context, bytes, count) == 1 &&
	    EVP_MAC_final(hmac->context, code, &written, CCRYPTO_SHA256_SIZE) == 1 &&
	    written == CCRYPTO_SHA256_SIZE)
		return (CCRYPTO_OK);
	ERR_clear_error();
	return (CCRYPTO_ERROR_LIBRARY);
}

void
ccrypto_hmac_free(ccrypto_hmac *hmac)
{

	if (hmac == NULL)
		return;
	EVP_MAC_CTX_free(hmac->context);
	free(hmac);
}
