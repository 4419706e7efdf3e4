// The reader to compare with: the same tokens, the same base64, simdjson for the JSON.
//
// Both of its interfaces are here. The DOM validates the whole text, as ours does; On-Demand is
// quicker and does not look into what it skips.

#include <simdjson.h>

#include <cstdint>
#include <cstring>

extern "C" {
#include "ctext.h"
}

namespace {

struct Fields {
    int64_t app_apple_id = 0, created = 0, expires = 0;
    std::string_view bundle_id, purchase_id, type;
    int count = 0;
};

uint8_t decoded[4096 / 4 * 3 + 3 + CTEXT_SLACK];
static_assert(CTEXT_SLACK >= simdjson::SIMDJSON_PADDING);

size_t decode_base64(const uint8_t *text, size_t count, int level)
{
    while (count > 0 && text[count - 1] == '=')
        count--;
    if (ctext_base64_decode_at(level, decoded, text, count, CTEXT_LENIENT) != count)
        return 0;
    return count / 4 * 3 + (count % 4 ? count % 4 - 1 : 0);
}

bool is_complete(const Fields &fields)
{
    return fields.app_apple_id > 0 && fields.created > 0 && fields.expires >= 0
        && !fields.bundle_id.empty() && !fields.purchase_id.empty() && fields.count >= 4;
}

template <typename Value> bool take(Fields &fields, std::string_view key, Value value)
{
    simdjson::error_code error = simdjson::SUCCESS;
    fields.count++;
    if (key == "appAppleId")
        error = value.get_int64().get(fields.app_apple_id);
    else if (key == "bundleId")
        error = value.get_string().get(fields.bundle_id);
    else if (key == "tokenCreationDate")
        error = value.get_int64().get(fields.created);
    else if (key == "externalPurchaseId")
        error = value.get_string().get(fields.purchase_id);
    else if (key == "tokenType")
        error = value.get_string().get(fields.type);
    else if (key == "tokenExpirationDate")
        error = value.get_int64().get(fields.expires);
    return error == simdjson::SUCCESS;
}

simdjson::dom::parser dom_parser;
simdjson::ondemand::parser ondemand_parser;

uint64_t checksum(const Fields &fields)
{
    return uint64_t(fields.app_apple_id) + uint64_t(fields.created) + uint64_t(fields.expires)
        + fields.bundle_id.size() + fields.purchase_id.size() + fields.type.size();
}

uint64_t read_dom(const uint8_t *text, size_t count, int level)
{
    size_t size = decode_base64(text, count, level);
    simdjson::dom::object object;
    Fields fields;
    if (dom_parser.parse(decoded, size, false).get_object().get(object))
        return 0;
    for (auto field : object)
        if (!take(fields, field.key, field.value))
            return 0;
    return is_complete(fields) ? checksum(fields) : 0;
}

uint64_t read_ondemand(const uint8_t *text, size_t count, int level)
{
    size_t size = decode_base64(text, count, level);
    simdjson::ondemand::document document;
    simdjson::ondemand::object object;
    Fields fields;
    auto view = simdjson::padded_string_view(decoded, size, sizeof decoded);
    if (ondemand_parser.iterate(view).get(document) || document.get_object().get(object))
        return 0;
    for (auto field : object) {
        std::string_view name;
        simdjson::ondemand::value value;
        if (field.unescaped_key().get(name) || field.value().get(value))
            return 0;
        if (!take(fields, name, value))
            return 0;
    }
    return is_complete(fields) ? checksum(fields) : 0;
}

} // namespace

// Read the tokens between the ${count} + 1 places ${bounds} of ${arena}; return the sum of their fields.
extern "C" uint64_t simdjson_read(
    const uint8_t *arena, const size_t *bounds, size_t count, int on_demand, int level)
{
    uint64_t sum = 0;
    for (size_t index = 0; index < count; index++) {
        const uint8_t *text = arena + bounds[index];
        size_t size = bounds[index + 1] - bounds[index];
        sum += on_demand ? read_ondemand(text, size, level) : read_dom(text, size, level);
    }
    return sum;
}
