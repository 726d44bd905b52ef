#include "request_json.h"

#include <fmt/format.h>

#include "failure.h"
#include "longformer/error.h"

namespace longformer::server {
namespace {

constexpr int kDeepest = 64;

/// Values of requests may be long.
std::string shown(const Json& value) {
  switch (value.type()) {
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::string:
      return "a string";
    default:
      return value.dump();
  }
}

}  // namespace

Json parse_object(std::string_view body) {
  const auto callback = [](int depth, Json::parse_event_t, Json&) {
    if (depth >= kDeepest) {
      throw Failure(400, "Validation",
                    fmt::format("expected JSON of at most {} levels, found more", kDeepest));
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(body, callback);
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();
    const auto reason = what.find("] ");
    throw Failure(400, "Validation",
                  fmt::format("expected JSON in UTF-8: {}",
                              what.substr(reason == what.npos ? 0 : reason + 2)));
  }
  if (!json.is_object()) refuse_type("body", "an object", json);
  return json;
}

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void refuse_type(std::string_view key, std::string_view expected, const Json& found) {
  refuse(fmt::format("`{}`: expected {}, found {}", key, expected, shown(found)));
}

std::optional<std::string> text_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(key, "a string", *value);
  return value->get<std::string>();
}

std::optional<bool> truth_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::int64_t> whole_of(const Json& object, const char* key, std::int64_t least,
                                     std::int64_t most) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  const bool is_whole = value->is_number_integer() &&
                        (!value->is_number_unsigned() ||
                         value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!is_whole || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    refuse_type(key, fmt::format("a whole number from {} to {}", least, most), *value);
  }
  return value->get<std::int64_t>();
}

std::optional<double> number_of(const Json& object, const char* key, double least, double most) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  const bool is_within =
      value->is_number() && value->get<double>() >= least && value->get<double>() <= most;
  if (!is_within) refuse_type(key, fmt::format("a number from {} to {}", least, most), *value);
  return value->get<double>();
}

std::optional<std::vector<std::string>> texts_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_type(key, "a list of strings", *value);
  std::vector<std::string> texts;
  for (const Json& one : *value) {
    if (!one.is_string()) refuse_type(fmt::format("{}[{}]", key, texts.size()), "a string", one);
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

std::string needed_text(const Json& object, const char* key) {
  const auto text = text_of(object, key);
  if (!text) refuse_missing(key);
  if (text->empty()) refuse_empty(key);
  return *text;
}

OptionFields request_options(OptionFields all) {
  return without(std::move(all), {"truncate", "split", "extend", "refuse", "batch_tokens"});
}

void read_fields(const OptionFields& fields, const Json& object) {
  Json chosen = Json::object();
  for (const OptionField& field : fields) {
    if (const Json* value = member(object, field.name.c_str())) chosen[field.name] = *value;
  }
  try {
    read_options(fields, chosen.dump());
  } catch (const Error& error) {
    throw failure_of(error, "inputs");
  }
}

}  // namespace longformer::server
