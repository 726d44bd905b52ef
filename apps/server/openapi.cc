// The description of the routes, out of the table that they are served by.
#include <fmt/format.h>

#include "api.h"
#include "version.h"

namespace longformer::server {
namespace {

Json schemas() {
  const Json text = {{"type", "string"}, {"minLength", 1}};
  const Json ids = {
      {"type", "array"}, {"minItems", 1}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
  const Json list = {{"type", "array"}, {"minItems", 1}, {"items", {{"oneOf", {text, ids}}}}};
  return {{"Inputs", {{"oneOf", {text, ids, list}}}},
          {"Error",
           {{"type", "object"},
            {"required", {"error"}},
            {"properties",
             {{"error", {{"oneOf", {{{"type", "string"}}, {{"type", "object"}}}}}},
              {"error_type", {{"type", "string"}}}}}}}};
}

/// Texts of a schema that only OpenAPI 3.0 knows become those of 3.1.
Json with_null(Json schema) {
  if (schema.is_object() && schema.contains("properties")) {
    for (auto& [name, one] : schema["properties"].items()) one = with_null(one);
  }
  if (schema.is_object() && schema.value("nullable", false)) {
    schema.erase("nullable");
    schema = {{"oneOf", {schema, {{"type", "null"}}}}};
  }
  return schema;
}

Json request_of(const Route& route) {
  Json properties = Json::object(), needed = Json::array();
  for (const ApiField& field : route.fields()) {
    properties[field.name] = with_null(field.schema);
    if (field.is_needed) needed.push_back(field.name);
  }
  Json schema = {{"type", "object"}, {"properties", properties}};
  if (!needed.empty()) schema["required"] = needed;
  for (const std::string& name : route.one_of) {
    // Null is absent.
    schema["anyOf"].push_back(
        {{"required", {name}}, {"properties", {{name, {{"not", {{"type", "null"}}}}}}}});
  }
  return {{"required", true}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

Json responses_of(const Route& route) {
  const Json error = {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}};
  Json responses = {{"200", {{"description", "the result"}}}};
  const auto add = [&](const char* status, const char* meaning) {
    responses[status] = {{"description", meaning}, {"content", error}};
  };
  add("401", "no key, or a wrong one");
  add("403", "a stranger's host or origin");
  add("503", "the server stops");
  if (route.path.find('{') != std::string_view::npos) add("404", "nobody has this name");
  if (!route.positions.empty()) {
    add("400", "a malformed address");
    add("422", "a value that cannot be used");
  }
  if (route.fields == nullptr) return responses;
  add("400", "no JSON, or an empty input");
  add("404", "no such model or document");
  add("413", "more bytes than the server takes");
  add("415", "another Content-Type than application/json");
  add("422", "a value that cannot be used");
  add("424", "no model that is served can do this");
  add("429", "too much work is under way; see Retry-After");
  add("507", "the disk is full");
  if (route.path == "/documents") responses["201"] = {{"description", "the document"}};
  return responses;
}

Json parameters_of(const Route& route) {
  Json parameters = Json::array();
  std::string_view path = route.path;
  for (auto open = path.find('{'); open != path.npos; open = path.find('{')) {
    const auto close = path.find('}');
    parameters.push_back({{"name", path.substr(open + 1, close - open - 1)},
                          {"in", "path"},
                          {"required", true},
                          {"schema", {{"type", "string"}}}});
    path.remove_prefix(close + 1);
  }
  const auto add = [&](std::string_view name, const Json& schema) {
    parameters.push_back({{"name", name}, {"in", "query"}, {"schema", schema}});
  };
  const auto add_choice = [&](const char* name, Json values) {
    add(name, {{"type", "string"}, {"enum", std::move(values)}});
  };
  for (const std::string_view name : route.positions) {
    add(name, {{"type", "integer"}, {"minimum", 0}});
  }
  if (route.fields != nullptr) add_choice("long", {"split", "truncate", "refuse"});
  if (route.fields != nullptr || !route.positions.empty()) {
    add_choice("offsets", {"characters", "utf16"});
  }
  return parameters;
}

}  // namespace

std::string openapi_json(const Api& api) {
  Json paths = Json::object();
  for (const Route& route : routes()) {
    if (!api.serves(route)) continue;
    Json entry = {{"summary", route.summary}, {"responses", responses_of(route)}};
    const Json parameters = parameters_of(route);
    if (!parameters.empty()) entry["parameters"] = parameters;
    if (route.fields != nullptr) entry["requestBody"] = request_of(route);
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c + ('a' - 'A'));
    paths[std::string(route.path)][method] = entry;
  }
  const Json description = {{"openapi", "3.1.0"},
                            {"info", {{"title", "longformer serve"}, {"version", kVersion}}},
                            {"paths", paths},
                            {"components", {{"schemas", schemas()}}}};
  return description.dump();
}

}  // namespace longformer::server
