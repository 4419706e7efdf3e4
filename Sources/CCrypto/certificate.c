#include "internal.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Steps into a value in DER that must have a tag, or over it; NULL where it has not. */
static const uint8_t *
step(const uint8_t *position, const uint8_t *end, int wanted, int is_into)
{
	const uint8_t *content = position;
	int class, tag, form;
	long count;

	if (position == NULL || position >= end)
		return (NULL);
	form = ASN1_get_object(&content, &count, &tag, &class, end - position);
	/* An error, or of a length that is not told. */
	if ((form & 0x81) != 0 || class != V_ASN1_UNIVERSAL || tag != wanted) {
		ERR_clear_error();
		return (NULL);
	}
	return (is_into ? content : content + count);
}

/* Whether the bytes from ${position} to ${end} are these; no where ${end} is NULL. */
static int
is_value(const uint8_t *position, const uint8_t *end, const uint8_t *wanted, size_t count)
{

	return (end != NULL && (size_t)(end - position) == count &&
	    memcmp(position, wanted, count) == 0);
}

/*
 * Whether a certificate's key is of RSA, or on P-256 or P-384 with both coordinates.
 *
 * OpenSSL 3 decodes the key with the certificate, before anybody has looked at a signature.  A curve that is
 * spelt out may have a prime for which one square root takes a tenth of a second, and a point with one
 * coordinate of P-224 takes a millisecond.
 */
static int
has_cheap_key(const uint8_t *der, size_t count)
{
	static const uint8_t ec[] = {0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01};
	static const uint8_t p256[] = {0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07};
	static const uint8_t p384[] = {0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22};
	static const uint8_t rsa[] = {0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
	    0x01};
	const uint8_t *end = der + count, *position, *parameters, *key, *point;
	int index;

	position = step(der, end, V_ASN1_SEQUENCE, 1);
	position = step(position, end, V_ASN1_SEQUENCE, 1);
	/* The version, which has a tag of its own. */
	if (position != NULL && position + 5 <= end && position[0] == 0xa0 && position[1] == 3)
		position += 5;
	position = step(position, end, V_ASN1_INTEGER, 0);
	/* Algorithm, issuer, validity, subject. */
	for (index = 0; index < 4; index++)
		position = step(position, end, V_ASN1_SEQUENCE, 0);
	position = step(position, end, V_ASN1_SEQUENCE, 1);
	position = step(position, end, V_ASN1_SEQUENCE, 1);
	parameters = step(position, end, V_ASN1_OBJECT, 0);
	if (is_value(position, parameters, rsa, sizeof(rsa)))
		return (1);
	key = step(parameters, end, V_ASN1_OBJECT, 0);
	if (!is_value(position, parameters, ec, sizeof(ec)) ||
	    !(is_value(parameters, key, p256, sizeof(p256)) ||
	    is_value(parameters, key, p384, sizeof(p384))))
		return (0);
	/* One string of bits, not one made of several; all of its bits are used; both coordinates follow. */
	point = step(key, end, V_ASN1_BIT_STRING, 1);
	return (point != NULL && key[0] == V_ASN1_BIT_STRING && end - point >= 2 &&
	    point[0] == 0 && point[1] == 0x04);
}

int
ccrypto_certificate_read(const uint8_t *der, size_t count, ccrypto_certificate **certificate)
{
	const unsigned char *position = der;
	X509 *x509;

	ERR_clear_error();
	if (count > INT_MAX || !has_cheap_key(der, count))
		return (CCRYPTO_ERROR_FORM);
	x509 = d2i_X509(NULL, &position, (long)count);
	ERR_clear_error();
	if (x509 == NULL)
		return (CCRYPTO_ERROR_FORM);
	if (position != der + count) {
		X509_free(x509);
		return (CCRYPTO_ERROR_FORM);
	}
	if ((*certificate = calloc(1, sizeof(**certificate))) == NULL) {
		X509_free(x509);
		return (CCRYPTO_ERROR_LIBRARY);
	}
	(*certificate)->x509 = x509;
	return (CCRYPTO_OK);
}

void
ccrypto_certificate_free(ccrypto_certificate *certificate)
{

	if (certificate == NULL)
		return;
	X509_free(certificate->x509);
	free(certificate);
}

static long
write_certificate(const ccrypto_certificate *certificate, int is_pem, uint8_t *bytes,
    size_t capacity)
{
	BIO *bio;
	long result = CCRYPTO_ERROR_LIBRARY;

	ERR_clear_error();
	if ((bio = BIO_new(BIO_s_mem())) == NULL)
		goto done;
	if ((is_pem ? PEM_write_bio_X509(bio, certificate->x509)
	    : i2d_X509_bio(bio, certificate->x509)) == 1)
		result = ccrypto_copy_out(bio, bytes, capacity);
done:
	BIO_free(bio);
	ERR_clear_error();
	return (result);
}

long
ccrypto_certificate_write_der(const ccrypto_certificate *certificate, uint8_t *bytes,
    size_t capacity)
{

	return (write_certificate(certificate, 0, bytes, capacity));
}

long
ccrypto_certificate_write_pem(const ccrypto_certificate *certificate, uint8_t *bytes,
    size_t capacity)
{

	return (write_certificate(certificate, 1, bytes, capacity));
}

int
ccrypto_certificate_has_extension(const ccrypto_certificate *certificate, const char *oid)
{
	ASN1_OBJECT *object;
	int index;

	ERR_clear_error();
	if ((object = OBJ_txt2obj(oid, 1)) == NULL) {
		ERR_clear_error();
		return (CCRYPTO_ERROR_FORM);
	}
	index = X509_get_ext_by_OBJ(certificate->x509, object, -1);
	ASN1_OBJECT_free(object);
	ERR_clear_error();
	return (index >= 0);
}

int
ccrypto_certificate_may_sign_data(const ccrypto_certificate *certificate)
{
	uint32_t usage;

	ERR_clear_error();
	/* All bits are set where there is no keyUsage: then no use is excluded (RFC 5280, 4.2.1.3). */
	usage = X509_get_key_usage(certificate->x509);
	ERR_clear_error();
	return ((usage & KU_DIGITAL_SIGNATURE) != 0 &&
	    (X509_get_extension_flags(certificate->x509) & (EXFLAG_CA | EXFLAG_INVALID)) == 0);
}

int
ccrypto_certificate_names_issuer(const ccrypto_certificate *certificate,
    const ccrypto_certificate *issuer)
{

	return (X509_NAME_cmp(X509_get_issuer_name(certificate->x509),
	    X509_get_subject_name(issuer->x509)) == 0);
}

int
ccrypto_certificate_is_signed_by(const ccrypto_certificate *certificate,
    const ccrypto_certificate *issuer)
{
	EVP_PKEY *pkey;
	int ok;

	ERR_clear_error();
	pkey = X509_get0_pubkey(issuer->x509);
	ok = pkey != NULL && X509_verify(certificate->x509, pkey) == 1;
	ERR_clear_error();
	return (ok ? CCRYPTO_OK : CCRYPTO_ERROR_MISMATCH);
}

int
ccrypto_certificate_public_key(const ccrypto_certificate *certificate, ccrypto_key **key)
{
	EVP_PKEY *pkey;

	ERR_clear_error();
	pkey = X509_get_pubkey(certificate->x509);
	ERR_clear_error();
	if (pkey == NULL)
		return (CCRYPTO_ERROR_FORM);
	if (ccrypto_curve(pkey) != CCRYPTO_P256) {
		EVP_PKEY_free(pkey);
		ERR_clear_error();
		return (CCRYPTO_ERROR_CURVE);
	}
	return (ccrypto_key_wrap(pkey, key));
}
