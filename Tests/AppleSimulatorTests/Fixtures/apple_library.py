"""Talks to the simulator with Apple's own server library for Python (app-store-server-library).

Arguments: one JSON object. Prints one line for each thing that held; ends with a trace otherwise.
"""
import json
import ssl
import sys
import time
import uuid

from appstoreserverlibrary.api_client import APIError, APIException, AppStoreServerAPIClient
from appstoreserverlibrary.models.Environment import Environment
from appstoreserverlibrary.models.NotificationHistoryRequest import NotificationHistoryRequest
from appstoreserverlibrary.models.UpdateAppAccountTokenRequest import UpdateAppAccountTokenRequest
from appstoreserverlibrary.signed_data_verifier import SignedDataVerifier, VerificationException

given = json.loads(sys.argv[1])
client = AppStoreServerAPIClient(
    given["privateKey"].encode(),
    given["keyId"],
    given["issuerId"],
    given["bundleId"],
    Environment.PRODUCTION,
)
client._base_url = given["url"]
verifier = SignedDataVerifier(
    [ssl.PEM_cert_to_DER_cert(given["rootPEM"])],
    False,
    Environment.PRODUCTION,
    given["bundleId"],
    given["appAppleId"],
)


def refused(call, error):
    try:
        call()
    except APIException as exception:
        assert exception.api_error == error, exception.raw_api_error
        return
    raise AssertionError("accepted, and should not be")


def set_token(transaction, token):
    client.set_app_account_token(
        transaction, UpdateAppAccountTokenRequest(appAccountToken=token)
    )


set_token("1", str(uuid.uuid4()).upper())
set_token("1", str(uuid.uuid4()))
refused(lambda: set_token("1", "x"), APIError.INVALID_APP_ACCOUNT_TOKEN_UUID_ERROR)
refused(
    lambda: set_token("2", str(uuid.uuid4())),
    APIError.TRANSACTION_ID_IS_NOT_ORIGINAL_TRANSACTION_ID_ERROR,
)
refused(
    lambda: set_token("9", str(uuid.uuid4())), APIError.ORIGINAL_TRANSACTION_ID_NOT_FOUND
)
print("account token")

transaction = verifier.verify_and_decode_signed_transaction(given["signedTransaction"])
assert transaction.originalTransactionId == "1", transaction
print("transaction")

token = client.request_test_notification().testNotificationToken
deadline = time.time() + 20
while True:
    try:
        status = client.get_test_notification_status(token)
        break
    except APIException as exception:
        assert exception.api_error == APIError.TEST_NOTIFICATION_NOT_FOUND, exception
        assert time.time() < deadline, "the test notification was never sent"
notification = verifier.verify_and_decode_notification(status.signedPayload)
assert notification.rawNotificationType == "TEST", notification
assert len(status.sendAttempts) >= 1, status
print("test notification")

now = int(time.time() * 1000)
request = NotificationHistoryRequest(startDate=now - 86_400_000, endDate=now + 86_400_000)
seen = set()
pages = 0
page_token = None
while True:
    page = client.get_notification_history(page_token, request)
    pages += 1
    for item in page.notificationHistory:
        decoded = verifier.verify_and_decode_notification(item.signedPayload)
        seen.add(decoded.notificationUUID)
        if decoded.rawNotificationType == "EXTERNAL_PURCHASE_TOKEN":
            assert decoded.rawSubtype == "UNREPORTED", decoded
            assert decoded.externalPurchaseToken.bundleId == given["bundleId"], decoded
    if not page.hasMore:
        break
    page_token = page.paginationToken
assert pages == 2 and len(seen) == 26, (pages, len(seen))
print("history")

for name, payload in sorted(given["forged"].items()):
    try:
        verifier.verify_and_decode_notification(payload)
    except VerificationException:
        continue
    raise AssertionError(name + " was believed")
print("forgeries")
