#include "api.h"

#include <fmt/format.h>

#include <algorithm>

#include "failure.h"

namespace longformer::server {
namespace {

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (const auto& part :
       {service_routes(), embedding_routes(), class_routes(), token_routes(), openai_routes(),
        task_routes(), writing_routes(), attention_routes(), library_routes(), pipeline_routes()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// Whether a path fits that of a route, whose {…} stand for one part each.
bool fits(std::string_view pattern, std::string_view path, std::vector<std::string>& parts) {
  parts.clear();
  while (!pattern.empty()) {
    const auto brace = pattern.find('{');
    if (brace == std::string_view::npos) return pattern == path;
    if (!path.starts_with(pattern.substr(0, brace))) return false;
    path.remove_prefix(brace);
    pattern.remove_prefix(pattern.find('}') + 1);
    const std::string_view part = path.substr(0, pattern.empty() ? path.npos : path.find(pattern));
    if (part.empty()) return false;
    parts.emplace_back(part);
    path.remove_prefix(part.size());
  }
  return path.empty();
}

void check_content_type(const HttpRequest& request) {
  std::string type(request.header("content-type").value_or(""));
  type = type.substr(0, type.find(';'));
  std::erase(type, ' ');
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type == "application/json") return;
  throw Failure(415, "Validation",
                "expected requests with Content-Type: application/json, found " +
                    (type.empty() ? "none" : "`" + type + "`"));
}

}  // namespace

std::span<const Route> routes() {
  static const std::vector<Route> all = all_routes();
  return all;
}

std::string ApiCall::wanted_model() const {
  if (!model_name.empty()) return model_name;
  return text_of(body, "model").value_or("");
}

Library& Api::library() {
  if (!library_) refuse_head("Model is not an embedding model: documents need one");
  return *library_;
}

const Route& Api::find(const HttpRequest& request, std::vector<std::string>& parts) {
  const std::string_view method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : routes()) {
    if (!fits(route.path, request.path, parts)) continue;
    if (route.method == method) return route;
    if (!allowed.empty()) allowed += ", ";
    allowed += route.method;
    if (route.method == "GET") allowed += ", HEAD";
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

std::optional<HttpResponse> Api::answer(ApiCall& call) {
  const Route& route = find(call.request, call.parts);
  // Documents may be plain text.
  const bool is_text = route.path == "/documents" &&
                       call.request.header("content-type").value_or("").starts_with("text/plain");
  if (route.fields != nullptr && !is_text) {
    check_content_type(call.request);
    call.body = parse_object(call.request.body);
  }
  if (route.path.starts_with("/models/")) call.model_name = call.parts.at(0);
  return route.handler(*this, call);
}

std::optional<HttpResponse> Api::forward(Api& api, ApiCall& call, std::string_view path) {
  const auto found = std::ranges::find_if(
      routes(), [&](const Route& route) { return route.method == "POST" && route.path == path; });
  return found->handler(api, call);
}

HttpResponse json_response(std::string body, int status) {
  return {.status = status, .content_type = "application/json", .body = std::move(body)};
}

}  // namespace longformer::server
