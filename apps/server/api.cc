#include "api.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "failure.h"

namespace longformer::server {
namespace {

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (const auto& part :
       {service_routes(), embedding_routes(), kind_routes(), class_routes(), rerank_routes(),
        token_routes(), openai_routes(), ollama_routes(), task_routes(), multi_hop_routes(),
        writing_routes(), language_model_routes(), attention_routes(), library_routes(),
        pipeline_routes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// Whether a path fits that of a route, whose {…} stand for one part each: with slashes in it where
/// `has_slashes`, as in the name of a model of the Hub.
bool fits(std::string_view pattern, std::string_view path, bool has_slashes,
          std::vector<std::string>& parts) {
  parts.clear();
  while (!pattern.empty()) {
    const auto brace = pattern.find('{');
    if (brace == std::string_view::npos) return pattern == path;
    if (!path.starts_with(pattern.substr(0, brace))) return false;
    path.remove_prefix(brace);
    pattern.remove_prefix(pattern.find('}') + 1);
    if (!path.ends_with(pattern)) return false;
    const std::string_view part = path.substr(0, path.size() - pattern.size());
    if (part.empty() || (!has_slashes && part.find('/') != part.npos)) return false;
    parts.emplace_back(part);
    path.remove_prefix(part.size());
  }
  return path.empty();
}

void check_content_type(const std::string& type, bool takes_documents) {
  if (type == "application/json") return;
  std::string known = "application/json";
  if (takes_documents) {
    known = fmt::format("{}, text/plain, {}", known, fmt::join(document_media_types(), ", "));
  }
  throw Failure(415, "Validation",
                fmt::format("expected requests with Content-Type: {}, found {}", known,
                            type.empty() ? "none" : "`" + type + "`"));
}

/// ?long, ?offsets and `truncate` mean the same on every route, and are wrong on every route.
void check_ways(const ApiCall& call) {
  const auto check = [&](const char* name, std::initializer_list<std::string_view> known) {
    const auto found = call.request.query_value(name);
    if (!found || std::ranges::find(known, *found) != known.end()) return;
    refuse(
        fmt::format("`{}`: expected one of {}, found '{}'", name, fmt::join(known, ", "), *found));
  };
  check("long", {"split", "truncate", "refuse"});
  check("offsets", {"characters", "utf16"});
  truth_of(call.body, "truncate");
}

}  // namespace

std::span<const Route> routes() {
  static const std::vector<Route> all = all_routes();
  return all;
}

std::string ApiCall::wanted_model() const {
  const std::string named = text_of(body, "model").value_or("");
  return model_name.empty() ? named : model_name;
}

Library& Api::library() {
  if (!library_) refuse_head("Model is not an embedding model: documents need one");
  return *library_;
}

std::string content_type_of(const HttpRequest& request) {
  if (const auto coding = request.header("content-encoding"); coding && *coding != "identity") {
    throw Failure(415, "Validation", "expected a body without Content-Encoding");
  }
  std::string type(request.header("content-type").value_or(""));
  std::erase(type, ' ');
  std::erase(type, '"');
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto charset = type.find(";charset=");
  if (charset != type.npos &&
      !std::string_view(type).substr(charset).starts_with(";charset=utf-8")) {
    throw Failure(415, "Validation", "expected text in UTF-8");
  }
  return type.substr(0, type.find(';'));
}

std::int64_t Api::threads() const {
  const Model* model = models_.all.front()->model();
  return model == nullptr ? 0 : model->info().threads;
}

const Route& Api::find(const HttpRequest& request, std::vector<std::string>& parts) {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const bool has_slashes : {false, true}) {
    if (!allowed.empty()) break;
    for (const Route& route : routes()) {
      if (!fits(route.path, request.path, has_slashes, parts)) continue;
      if (route.method == method) return route;
      allowed += allowed.empty() ? "" : ", ";
      allowed += route.method;
      if (route.method == "GET") allowed += ", HEAD";
    }
  }
  if (allowed.empty()) {
    throw Failure(404, "Validation", fmt::format("no route `{}`", request.path));
  }
  allowed += ", OPTIONS";
  throw Failure(405, "Validation",
                fmt::format("`{}` takes {}, found {}", request.path, allowed, request.method),
                {{"Allow", allowed}});
}

bool Api::serves(const Route& route) const {
  if (!route.ability) return true;
  return std::ranges::any_of(models_.all,
                             [&](const auto& model) { return model->can(*route.ability); });
}

bool is_media_type_of_documents(std::string_view type) {
  static const std::vector<std::string> types = document_media_types();
  return type == "text/plain" || std::ranges::find(types, type) != types.end();
}

std::optional<HttpResponse> Api::answer(ApiCall& call) {
  const Route& route = find(call.request, call.parts);
  if (route.fields != nullptr) {
    const std::string type = content_type_of(call.request);
    if (!route.takes_text || !is_media_type_of_documents(type)) {
      check_content_type(type, route.takes_text);
      call.body = parse_object(call.request.body);
    }
  }
  check_ways(call);
  if (route.path.starts_with("/models/")) call.model_name = call.parts.at(0);
  return route.handler(*this, call);
}

std::optional<HttpResponse> Api::forward(ApiCall& call, std::string_view path) {
  const auto found = std::ranges::find_if(
      routes(), [&](const Route& route) { return route.method == "POST" && route.path == path; });
  return found->handler(*this, call);
}

HttpResponse json_response(std::string body, int status) {
  return {.status = status, .content_type = "application/json", .body = std::move(body)};
}

}  // namespace longformer::server
