#include "schemas.h"

#include <utility>

namespace longformer::server {

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

ApiField model_field() { return {"model", optional_schema("string")}; }

ApiField truncate_field() { return {"truncate", optional_schema("boolean")}; }

ApiField truncation_direction_field() {
  return {"truncation_direction",
          optional_schema(Json{{"type", "string"}, {"enum", {"left", "right", "Left", "Right"}}})};
}

}  // namespace longformer::server
