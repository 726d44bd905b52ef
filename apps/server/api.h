// The routes of a server: the description of each, and how a request gets to one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http.h"
#include "library.h"
#include "metrics.h"
#include "request_json.h"
#include "served_model.h"

namespace longformer::server {

struct ApiOptions {
  /// The handling of texts that are longer than the model, where a request does not say.
  TooLong too_long = TooLong::split;
  /// Inputs of one request, requests under way, and seconds that one may wait.
  std::int64_t most_inputs = 2048, most_requests = 512;
  double most_wait = 300;
  std::int64_t batch_tokens = 16384;
  /// A prompt of the folders for texts whose request names none.
  std::optional<std::string> prompt_name, prompt;
  std::optional<Pooling> pooling;
  /// Masked LMs give sparse vectors (--pooling splade).
  bool is_sparse = false;
  /// The name in /info, where it is not that of the first model.
  std::string served_name;
};

/// Lengths of the inputs of a request, for the headers of its answer.
struct Lengths {
  std::int64_t inputs = 0, characters = 0, tokens = 0, truncated = 0, segments = 0;
};

/// One request on its way through a route.
struct ApiCall {
  const HttpRequest& request;
  std::shared_ptr<HttpExchange> exchange;
  /// An empty object for a request without a body.
  Json body = Json::object();
  /// The texts that stand for the {…} of the route's path.
  std::vector<std::string> parts = {};
  /// The model that the path names.
  std::string model_name = {};
  /// Called several times a second while the request waits and computes. It must not throw.
  std::function<void()> meanwhile = {};
  /// x-request-id: that of the client, else one that was made.
  std::string id = {};
  Lengths lengths = {};
  /// The name of the model that served it.
  mutable std::string used_model = {};

  /// The model of the path or the body; empty: none is named.
  std::string wanted_model() const;
};

class Api;
/// Nothing: the handler has answered by the exchange.
using Handler = std::optional<HttpResponse> (*)(Api&, ApiCall&);

/// A member of a request in openapi.json.
struct ApiField {
  std::string name;
  Json schema;
  bool is_needed = false;
};

struct Route {
  std::string_view method, path, summary;
  Handler handler;
  /// Absent: any model, or none, serves it.
  std::optional<Ability> ability = {};
  /// Members of the body; null: it has none.
  std::vector<ApiField> (*fields)() = nullptr;
  /// Members of which one is needed.
  std::vector<std::string> one_of = {};
  /// The body may be plain text or a file with a text, which the handler reads.
  bool takes_text = false;
  /// Positions in a text that the address may have.
  std::vector<std::string_view> positions = {};
};

/// Whether a body of this type is a document: plain text, PDF, Word and others.
bool is_media_type_of_documents(std::string_view type);

/// All routes, in the order of openapi.json.
std::span<const Route> routes();

/// The parts of the table, one in each file.
std::vector<Route> embedding_routes();
std::vector<Route> kind_routes();
std::vector<Route> class_routes();
std::vector<Route> rerank_routes();
std::vector<Route> ollama_routes();
std::vector<Route> token_routes();
std::vector<Route> openai_routes();
std::vector<Route> task_routes();
std::vector<Route> multi_hop_routes();
std::vector<Route> writing_routes();
std::vector<Route> language_model_routes();
std::vector<Route> attention_routes();
std::vector<Route> pipeline_routes();
std::vector<Route> library_routes();
std::vector<Route> service_routes();

class Api {
 public:
  /// Passes of the models are reported to the metrics.
  Api(LoadedModels models, std::unique_ptr<Library> library, std::shared_ptr<Metrics> metrics,
      ApiOptions options)
      : models_(std::move(models)),
        library_(std::move(library)),
        options_(std::move(options)),
        metrics_(std::move(metrics)) {}

  const LoadedModels& models() const { return models_; }
  const ApiOptions& options() const { return options_; }
  Metrics& metrics() { return *metrics_; }
  /// Values that the server measures when somebody asks.
  MetricGauges gauges() const { return gauges_ ? gauges_() : MetricGauges(); }
  void set_gauges(std::function<MetricGauges()> gauges) { gauges_ = std::move(gauges); }
  std::int64_t threads() const;
  bool has_index_file() const { return library_ != nullptr && library_->is_in_file(); }
  /// Throws Failure where no model makes vectors.
  Library& library();

  const ServedModel& model_for(const ApiCall& call, Ability ability) const {
    const ServedModel& model = models_.find(call.wanted_model(), ability);
    call.used_model = model.name;
    return model;
  }

  /// The model that the request names if it can; any other name stands for the first model that
  /// can.
  const ServedModel& model_or_first(const ApiCall& call, Ability ability) const {
    const ServedModel& model = models_.find_or_first(call.wanted_model(), ability);
    call.used_model = model.name;
    return model;
  }

  /// The route of a request; fills in the parts of its path. Throws Failure: 404, 405.
  static const Route& find(const HttpRequest& request, std::vector<std::string>& parts);
  /// Whether any model serves the route.
  bool serves(const Route& route) const;

  /// Answers by the route. Throws Failure and Error.
  std::optional<HttpResponse> answer(ApiCall& call);
  /// Answers a request that has been read as POST of this path would.
  std::optional<HttpResponse> forward(ApiCall& call, std::string_view path);

 private:
  LoadedModels models_;
  std::unique_ptr<Library> library_;
  ApiOptions options_;
  std::shared_ptr<Metrics> metrics_;
  std::function<MetricGauges()> gauges_;
};

/// openapi.json of what these models serve.
std::string openapi_json(const Api& api);

/// The kind of a body, without parameters, in small letters. Throws Failure, 415, for another
/// encoding than UTF-8, and for bodies that are packed.
std::string content_type_of(const HttpRequest& request);

HttpResponse json_response(std::string body, int status = 200);

}  // namespace longformer::server
