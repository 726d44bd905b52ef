// The body of a request: JSON, whose members are read by type. A wrong one is a Failure that names
// the member.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/options.h"

namespace longformer::server {

using Json = nlohmann::json;

/// An object in UTF-8, nested no deeper than 64. Throws Failure: 400 for what is no JSON.
Json parse_object(std::string_view body);

/// A member, or null where it is absent or null.
const Json* member(const Json& object, const char* key);

/// Absent: nothing. Throws Failure, 422, for a value of another type.
std::optional<std::string> text_of(const Json& object, const char* key);
std::optional<bool> truth_of(const Json& object, const char* key);
/// Throws Failure also for a number outside least … most.
std::optional<std::int64_t> whole_of(const Json& object, const char* key, std::int64_t least,
                                     std::int64_t most);
std::optional<double> number_of(const Json& object, const char* key, double least, double most);
std::optional<std::vector<std::string>> texts_of(const Json& object, const char* key);

/// Throws Failure, 422, where it is absent; 400, Empty, for an empty text.
std::string needed_text(const Json& object, const char* key);

/// The options of a description that a request has too: not those about long texts, which
/// `truncate` and ?long choose, nor the size of a pass, which the server chooses.
OptionFields request_options(OptionFields all);

/// Sets the options that the object has; other members mean nothing.
void read_fields(const OptionFields& fields, const Json& object);

[[noreturn]] void refuse_type(std::string_view key, std::string_view expected, const Json& found);

}  // namespace longformer::server
