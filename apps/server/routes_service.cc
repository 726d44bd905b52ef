// The server itself: /, /health, /info, /metrics, /openapi.json, /docs.
#include <fmt/format.h>

#include "failure.h"
#include "inputs.h"
#include "page_text.h"
#include "version.h"

namespace longformer::server {
namespace {

std::optional<HttpResponse> health(Api&, ApiCall&) { return HttpResponse{}; }

std::optional<HttpResponse> page(Api&, ApiCall& call) {
  const auto accept = call.request.header("accept").value_or("");
  if (accept.find("text/html") == std::string_view::npos) return HttpResponse{};
  return HttpResponse{.content_type = "text/html; charset=utf-8",
                      .headers = {{"Content-Security-Policy", page_policy()},
                                  {"X-Content-Type-Options", "nosniff"},
                                  {"Referrer-Policy", "no-referrer"},
                                  {"Cache-Control", "no-cache"}},
                      .body = std::string(kPage)};
}

std::optional<HttpResponse> metrics(Api& api, ApiCall&) {
  return HttpResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .body = api.metrics().text(api.gauges())};
}

std::string labels_json(const std::vector<std::string>& labels, bool by_label) {
  JsonLine json;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::string id = std::to_string(i);
    by_label ? json.add(labels[i], static_cast<std::int64_t>(i)) : json.add(id, labels[i]);
  }
  return json.object();
}

/// TEI's union: an embedding model, a classifier or a reranker; and other heads by their names.
std::string model_type_json(const ServedModel& model) {
  if (model.embedder) {
    const std::string pooling = model.info.pooling.empty() ? "mean" : model.info.pooling;
    return JsonLine().add_json("embedding", JsonLine().add("pooling", pooling).object()).object();
  }
  JsonLine labels;
  labels.add_json("id2label", labels_json(model.info.labels, false));
  labels.add_json("label2id", labels_json(model.info.labels, true));
  const std::string head = model.can(Ability::rerank)     ? "reranker"
                           : model.can(Ability::classify) ? "classifier"
                           : model.writer                 ? "summarization"
                                                          : model.info.head;
  return JsonLine().add_json(head, labels.object()).object();
}

std::vector<std::string> routes_of(const ServedModel& model) {
  std::vector<std::string> paths;
  for (const Route& route : routes()) {
    if (route.ability && model.can(*route.ability)) paths.emplace_back(route.path);
  }
  return paths;
}

JsonLine model_json(const ServedModel& model) {
  JsonLine json;
  json.add("name", model.name).add("head", model.writer ? "summarization" : model.info.head);
  json.add("dtype", model.dtype).add("max_tokens", model.max_tokens());
  json.add("windows", std::span(model.info.windows)).add("hidden_size", model.info.hidden_size);
  json.add("labels", std::span(model.info.labels));
  const std::vector<std::string> paths = routes_of(model);
  return json.add("routes", std::span(paths));
}

std::optional<HttpResponse> info_of(const Api& api, const ServedModel& model) {
  const ApiOptions& options = api.options();
  JsonLine json;
  json.add("model_id", model.name).add_null("model_sha");
  json.add("model_dtype", model.dtype == "fp32"   ? "float32"
                          : model.dtype == "bf16" ? "bfloat16"
                                                  : model.dtype);
  json.add("served_model_name", options.served_name.empty() ? model.name : options.served_name);
  json.add_json("model_type", model_type_json(model));
  json.add("max_concurrent_requests", options.most_requests);
  json.add("max_input_length", model.max_tokens()).add("max_batch_tokens", options.batch_tokens);
  json.add_null("max_batch_requests").add("max_client_batch_size", options.most_inputs);
  json.add("auto_truncate", options.too_long == TooLong::truncate);
  json.add("tokenization_workers", std::int64_t{1}).add("version", kVersion);
  json.add_null("sha").add_null("docker_label");
  const char* way = options.too_long == TooLong::split      ? "split"
                    : options.too_long == TooLong::truncate ? "truncate"
                                                            : "refuse";
  json.add("long", way).add("threads", api.threads());
  json.add("isa", instruction_set());
  json.add("index", api.has_index_file());
  std::vector<JsonLine> models;
  for (const auto& one : api.models().all) models.push_back(model_json(*one));
  return json_response(json.add_objects("models", models).object());
}

std::optional<HttpResponse> info(Api& api, ApiCall&) {
  return info_of(api, *api.models().all.front());
}

std::optional<HttpResponse> model_info(Api& api, ApiCall& call) {
  return info_of(api, api.models().named(call.model_name));
}

std::optional<HttpResponse> model_health(Api& api, ApiCall& call) {
  api.models().named(call.model_name);
  return HttpResponse{};
}

std::optional<HttpResponse> openapi(Api& api, ApiCall&) { return json_response(openapi_json(api)); }

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    html += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return html;
}

std::optional<HttpResponse> documentation(Api& api, ApiCall&) {
  std::string html =
      "<!doctype html><html lang=en><meta charset=utf-8><title>Routes</title><h1>Routes</h1><dl>";
  for (const Route& route : routes()) {
    if (!api.serves(route)) continue;
    html += fmt::format("<dt><code>{} {}</code><dd>{}", route.method, escaped(route.path),
                        escaped(route.summary));
    if (route.fields == nullptr) continue;
    html += "<ul>";
    for (const ApiField& field : route.fields()) {
      html += fmt::format("<li><code>{}</code>{} <code>{}</code>", field.name,
                          field.is_needed ? " (needed)" : "", escaped(field.schema.dump()));
    }
    html += "</ul>";
  }
  html += "</dl><p><a href=openapi.json>openapi.json</a>";
  return HttpResponse{.content_type = "text/html; charset=utf-8",
                      .headers = {{"Content-Security-Policy", "default-src 'none'"}},
                      .body = std::move(html)};
}

}  // namespace

std::vector<Route> service_routes() {
  return {{.method = "GET",
           .path = "/",
           .summary = "The page for readers; without text/html in Accept as /health.",
           .handler = page},
          {.method = "GET",
           .path = "/health",
           .summary = "200 while the server takes requests.",
           .handler = health},
          {.method = "GET", .path = "/ping", .summary = "The same as /health.", .handler = health},
          {.method = "GET",
           .path = "/info",
           .summary = "The first model, the limits, and all models with their routes.",
           .handler = info},
          {.method = "GET",
           .path = "/metrics",
           .summary = "Counters in the text form of Prometheus.",
           .handler = metrics},
          {.method = "GET",
           .path = "/openapi.json",
           .summary = "This description.",
           .handler = openapi},
          {.method = "GET",
           .path = "/api-doc/openapi.json",
           .summary = "The same as /openapi.json.",
           .handler = openapi},
          {.method = "GET",
           .path = "/docs",
           .summary = "The routes as a page.",
           .handler = documentation},
          {.method = "GET",
           .path = "/models/{name}/info",
           .summary = "/info of one model.",
           .handler = model_info},
          {.method = "GET",
           .path = "/models/{name}/health",
           .summary = "/health of one model.",
           .handler = model_health}};
}

}  // namespace longformer::server
