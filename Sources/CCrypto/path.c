#include "internal.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>

#include <limits.h>
#include <stdlib.h>
#include <time.h>

/* Leaf, intermediate, root. */
enum { PATH_LENGTH = 3 };

/* A certificate in PEM has no passphrase; OpenSSL must not ask for one on the terminal. */
static int
refuse_passphrase(char *buffer, int size, int is_writing, void *cookie)
{

	(void)buffer;
	(void)size;
	(void)is_writing;
	(void)cookie;
	return (-1);
}

static int
read_all(BIO *bio, ccrypto_roots *roots)
{
	X509 *x509;
	unsigned long error;
	int has_root = 0;
	int ok;

	while ((x509 = PEM_read_bio_X509(bio, NULL, refuse_passphrase, NULL)) != NULL) {
		if (X509_NAME_cmp(X509_get_subject_name(x509), X509_get_issuer_name(x509)) == 0)
			has_root = 1;
		ok = X509_STORE_add_cert(roots->store, x509);
		X509_free(x509);
		if (ok != 1)
			return (CCRYPTO_ERROR_LIBRARY);
		if (++roots->count > CCRYPTO_ROOT_COUNT_MAX)
			return (CCRYPTO_ERROR_COUNT);
	}
	/* The only good end is that no further certificate begins. */
	error = ERR_peek_last_error();
	if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
		return (CCRYPTO_ERROR_FORM);
	if (roots->count == 0)
		return (CCRYPTO_ERROR_COUNT);
	return (has_root ? CCRYPTO_OK : CCRYPTO_ERROR_NO_ROOT);
}

int
ccrypto_roots_read(const uint8_t *pem, size_t count, ccrypto_roots **roots)
{
	BIO *bio;
	ccrypto_roots *made;
	int result = CCRYPTO_ERROR_LIBRARY;

	ERR_clear_error();
	if (count > INT_MAX || (bio = BIO_new_mem_buf(pem, (int)count)) == NULL)
		goto failed;
	if ((made = calloc(1, sizeof(*made))) == NULL)
		goto failed_bio;
	if ((made->store = X509_STORE_new()) == NULL)
		goto failed_roots;
	if ((result = read_all(bio, made)) != CCRYPTO_OK)
		goto failed_roots;
	BIO_free(bio);
	ERR_clear_error();
	*roots = made;
	return (CCRYPTO_OK);

failed_roots:
	ccrypto_roots_free(made);
failed_bio:
	BIO_free(bio);
failed:
	ERR_clear_error();
	return (result);
}

size_t
ccrypto_roots_count(const ccrypto_roots *roots)
{

	return (roots->count);
}

void
ccrypto_roots_free(ccrypto_roots *roots)
{

	if (roots == NULL)
		return;
	X509_STORE_free(roots->store);
	free(roots);
}

int
ccrypto_roots_have_issuer(const ccrypto_roots *roots, const ccrypto_certificate *certificate)
{
	X509_STORE_CTX *context;
	X509_OBJECT *object = NULL;

	ERR_clear_error();
	if ((context = X509_STORE_CTX_new()) != NULL &&
	    X509_STORE_CTX_init(context, roots->store, NULL, NULL) == 1)
		object = X509_STORE_CTX_get_obj_by_subject(context, X509_LU_X509,
		    X509_get_issuer_name(certificate->x509));
	X509_STORE_CTX_free(context);
	ERR_clear_error();
	X509_OBJECT_free(object);
	return (object != NULL);
}

/*
 * RFC 5280, 4.1.2.5: the last second of the validity belongs to it.  OpenSSL takes it for expired.
 */
static int
accept_last_second(int ok, X509_STORE_CTX *context)
{
	const time_t *at = X509_STORE_CTX_get_app_data(context);
	X509 *x509 = X509_STORE_CTX_get_current_cert(context);

	if (ok || X509_STORE_CTX_get_error(context) != X509_V_ERR_CERT_HAS_EXPIRED)
		return (ok);
	if (ASN1_TIME_cmp_time_t(X509_get0_notAfter(x509), *at) != 0)
		return (0);
	X509_STORE_CTX_set_error(context, X509_V_OK);
	return (1);
}

static int64_t
unix_seconds_of(const ASN1_TIME *time)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(time, &tm) != 1)
		return (0);
	return ((int64_t)timegm(&tm));
}

/** Check that the path found is the one meant, and say how long it is valid. */
static int
describe(STACK_OF(X509) *chain, const X509 *intermediate, struct ccrypto_path *path)
{
	int i;

	if (sk_X509_num(chain) != PATH_LENGTH ||
	    X509_cmp(sk_X509_value(chain, 1), intermediate) != 0) {
		path->reason = X509_V_ERR_CERT_CHAIN_TOO_LONG;
		return (CCRYPTO_ERROR_MISMATCH);
	}
	path->valid_from = INT64_MIN;
	path->valid_to = INT64_MAX;
	for (i = 0; i < PATH_LENGTH; i++) {
		const X509 *x509 = sk_X509_value(chain, i);
		int64_t from = unix_seconds_of(X509_get0_notBefore(x509));
		int64_t to = unix_seconds_of(X509_get0_notAfter(x509));

		if (from > path->valid_from)
			path->valid_from = from;
		if (to < path->valid_to)
			path->valid_to = to;
	}
	return (CCRYPTO_OK);
}

int
ccrypto_path_verify(const ccrypto_roots *roots, const ccrypto_certificate *leaf,
    const ccrypto_certificate *intermediate, int64_t unix_seconds, struct ccrypto_path *path)
{
	time_t at = (time_t)unix_seconds;
	X509_STORE_CTX *context = NULL;
	STACK_OF(X509) *given = NULL;
	X509_VERIFY_PARAM *parameters;
	int result = CCRYPTO_ERROR_LIBRARY;

	ERR_clear_error();
	path->reason = 0;
	path->valid_from = path->valid_to = 0;
	if ((given = sk_X509_new_null()) == NULL || sk_X509_push(given, intermediate->x509) == 0)
		goto done;
	if ((context = X509_STORE_CTX_new()) == NULL ||
	    X509_STORE_CTX_init(context, roots->store, leaf->x509, given) != 1 ||
	    X509_STORE_CTX_set_app_data(context, &at) != 1)
		goto done;
	parameters = X509_STORE_CTX_get0_param(context);
	X509_VERIFY_PARAM_set_time(parameters, at);
	X509_VERIFY_PARAM_set_depth(parameters, PATH_LENGTH - 2);
	/* 80 bits of strength at least: no SHA-1, no short keys. */
	X509_VERIFY_PARAM_set_auth_level(parameters, 1);
	X509_STORE_CTX_set_verify_cb(context, accept_last_second);
	if (X509_verify_cert(context) == 1) {
		result = describe(X509_STORE_CTX_get0_chain(context), intermediate->x509, path);
		goto done;
	}
	path->reason = X509_STORE_CTX_get_error(context);
	if (path->reason != X509_V_ERR_OUT_OF_MEM)
		result = CCRYPTO_ERROR_MISMATCH;
done:
	X509_STORE_CTX_free(context);
	sk_X509_free(given);
	ERR_clear_error();
	return (result);
}

const char *
ccrypto_path_reason(int reason)
{

	return (X509_verify_cert_error_string(reason));
}
