#include "internal.h"

#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/x509v3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OID_TEXT_SIZE_MAX = 128 };

static int
add_text(X509 *x509, X509V3_CTX *context, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
	int ok = extension != NULL && X509_add_ext(x509, extension, -1) == 1;

	X509_EXTENSION_free(extension);
	return (ok);
}

/** Add one extension ${oid} whose value is the DER of NULL, as Apple's markers have it. */
static int
add_marker(X509 *x509, const char *oid, int is_critical)
{
	static const unsigned char der_null[] = { 0x05, 0x00 };
	ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
	ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
	X509_EXTENSION *extension = NULL;
	int ok = 0;

	if (object == NULL || value == NULL ||
	    ASN1_OCTET_STRING_set(value, der_null, sizeof(der_null)) != 1)
		goto done;
	extension = X509_EXTENSION_create_by_OBJ(NULL, object, is_critical, value);
	ok = extension != NULL && X509_add_ext(x509, extension, -1) == 1;
done:
	X509_EXTENSION_free(extension);
	ASN1_OCTET_STRING_free(value);
	ASN1_OBJECT_free(object);
	return (ok);
}

/** Add a marker for each of the ${oids}, which have blanks between them. */
static int
add_markers(X509 *x509, const char *oids, int is_critical)
{
	char oid[OID_TEXT_SIZE_MAX];

	while (oids != NULL && *oids != '\0') {
		size_t count = strcspn(oids, " ");

		if (count > 0) {
			if (count >= sizeof(oid))
				return (0);
			memcpy(oid, oids, count);
			oid[count] = '\0';
			if (!add_marker(x509, oid, is_critical))
				return (0);
		}
		oids += count + (oids[count] == ' ');
	}
	return (1);
}

static int
add_basic_constraints(X509 *x509, X509V3_CTX *context, const struct ccrypto_template *template)
{
	char value[64];

	if (template->is_authority < 0)
		return (1);
	if (!template->is_authority)
		return (add_text(x509, context, NID_basic_constraints, "critical,CA:FALSE"));
	if (template->path_length_max < 0)
		return (add_text(x509, context, NID_basic_constraints, "critical,CA:TRUE"));
	(void)snprintf(value, sizeof(value), "critical,CA:TRUE,pathlen:%d",
	    template->path_length_max);
	return (add_text(x509, context, NID_basic_constraints, value));
}

static int
add_extensions(X509 *x509, X509 *issuer, const struct ccrypto_template *template)
{
	X509V3_CTX context;

	X509V3_set_ctx(&context, issuer, x509, NULL, NULL, 0);
	if (!add_basic_constraints(x509, &context, template))
		return (0);
	if (template->key_usage != NULL &&
	    !add_text(x509, &context, NID_key_usage, template->key_usage))
		return (0);
	if (template->name_constraints != NULL &&
	    !add_text(x509, &context, NID_name_constraints, template->name_constraints))
		return (0);
	if (template->has_key_identifiers &&
	    (!add_text(x509, &context, NID_subject_key_identifier, "hash") ||
	    !add_text(x509, &context, NID_authority_key_identifier, "keyid")))
		return (0);
	return (add_markers(x509, template->marker_oids, 0) &&
	    add_markers(x509, template->critical_oids, 1));
}

static int
set_name_and_time(X509 *x509, const X509 *issuer, const struct ccrypto_template *template)
{
	X509_NAME *name = X509_get_subject_name(x509);

	return (X509_set_version(x509, X509_VERSION_3) == 1 &&
	    ASN1_INTEGER_set_uint64(X509_get_serialNumber(x509), template->serial) == 1 &&
	    ASN1_TIME_set(X509_getm_notBefore(x509), (time_t)template->not_before) != NULL &&
	    ASN1_TIME_set(X509_getm_notAfter(x509), (time_t)template->not_after) != NULL &&
	    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
	    (const unsigned char *)template->common_name, -1, -1, 0) == 1 &&
	    X509_set_issuer_name(x509, X509_get_subject_name(issuer == NULL ? x509 : issuer)) == 1);
}

int
ccrypto_certificate_issue(const struct ccrypto_template *template, const ccrypto_key *subject,
    const ccrypto_certificate *issuer, const ccrypto_key *issuer_key,
    ccrypto_certificate **certificate)
{
	X509 *issuer_x509 = issuer == NULL ? NULL : issuer->x509;
	X509 *x509;
	const EVP_MD *md;

	ERR_clear_error();
	if ((x509 = X509_new()) == NULL)
		goto failed;
	if (!set_name_and_time(x509, issuer_x509, template) ||
	    X509_set_pubkey(x509, subject->pkey) != 1 ||
	    !add_extensions(x509, issuer_x509 == NULL ? x509 : issuer_x509, template))
		goto failed;
	md = ccrypto_curve(issuer_key->pkey) == CCRYPTO_P384 ? EVP_sha384() : EVP_sha256();
	if (X509_sign(x509, issuer_key->pkey, md) == 0)
		goto failed;
	if ((*certificate = calloc(1, sizeof(**certificate))) == NULL)
		goto failed;
	(*certificate)->x509 = x509;
	ERR_clear_error();
	return (CCRYPTO_OK);

failed:
	X509_free(x509);
	ERR_clear_error();
	return (CCRYPTO_ERROR_LIBRARY);
}
