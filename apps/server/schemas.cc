#include "schemas.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace longformer::server {
namespace {

Json list_of(const char* type) { return {{"type", "array"}, {"items", {{"type", type}}}}; }

/// The type of a value of an option, with its bounds.
struct TypeOfOption {
  const OptionField& field;

  Json operator()(const bool*) const { return {{"type", "boolean"}}; }
  Json operator()(const OptionField::Flag&) const { return {{"type", "boolean"}}; }
  Json operator()(const std::int64_t*) const { return whole(); }
  Json operator()(const std::uint64_t*) const { return whole(); }
  Json operator()(const OptionField::Whole&) const { return whole(); }
  Json operator()(const double*) const { return number(); }
  Json operator()(const float*) const { return number(); }
  Json operator()(const std::string*) const { return text(); }
  Json operator()(const OptionField::Text&) const { return text(); }
  Json operator()(const std::vector<std::string>*) const { return list_of("string"); }
  Json operator()(const std::vector<std::int64_t>*) const { return list_of("integer"); }
  Json operator()(const OptionField::Numbers&) const { return list_of("number"); }
  template <typename Value>
  Json operator()(const std::optional<Value>*) const {
    return (*this)(static_cast<const Value*>(nullptr));
  }

 private:
  Json whole() const {
    return {{"type", "integer"},
            {"minimum", static_cast<std::int64_t>(field.least)},
            {"maximum",
             static_cast<std::int64_t>(std::min<double>(field.most, OptionField::kMostWhole))}};
  }
  Json number() const {
    Json schema = {{"type", "number"}};
    schema[field.is_above_least ? "exclusiveMinimum" : "minimum"] = field.least;
    if (std::isfinite(field.most)) schema["maximum"] = field.most;
    return schema;
  }
  Json text() const {
    Json schema = {{"type", "string"}};
    if (!field.choices.empty()) schema["enum"] = field.choices;
    return schema;
  }
};

}  // namespace

Json text_schema() { return {{"type", "string"}, {"minLength", 1}}; }

Json texts_schema() { return {{"type", "array"}, {"minItems", 1}, {"items", text_schema()}}; }

Json optional_schema(Json schema) {
  schema["nullable"] = true;
  return schema;
}

Json optional_schema(const char* type) { return optional_schema(Json{{"type", type}}); }

Json optional_whole_schema(std::int64_t least) {
  return optional_schema(Json{{"type", "integer"}, {"minimum", least}});
}

Json pairs_schema() {
  const Json one = {{"type", "array"}, {"items", text_schema()}, {"minItems", 1}, {"maxItems", 2}};
  return {{"type", "array"}, {"items", one}, {"minItems", 1}};
}

Json inputs_schema() { return {{"$ref", "#/components/schemas/Inputs"}}; }

void append_options(std::vector<ApiField>& fields, const OptionFields& options) {
  for (const OptionField& option : options) {
    Json schema = optional_schema(std::visit(TypeOfOption{option}, option.value));
    schema["description"] = help_of(option);
    fields.push_back({option.name, std::move(schema)});
  }
}

ApiField model_field() { return {"model", optional_schema("string")}; }

ApiField truncate_field() { return {"truncate", optional_schema("boolean")}; }

ApiField truncation_direction_field() {
  return {"truncation_direction",
          optional_schema(Json{{"type", "string"}, {"enum", {"left", "right", "Left", "Right"}}})};
}

}  // namespace longformer::server
