// A server without sockets: requests of a test go to its routes.
#pragma once

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "api.h"
#include "library.h"
#include "server.h"

namespace longformer::server {

/// An exchange whose answer, or all chunks of a stream, the test waits for.
class HeldExchange final : public HttpExchange {
 public:
  explicit HeldExchange(HttpRequest request) : request_(std::move(request)) {}
  ~HeldExchange() override {
    if (!is_answered_) answer_.set_value({.status = 500, .body = "unanswered"});
  }

  std::future<HttpResponse> answer() { return answer_.get_future(); }

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override { give(std::move(response)); }
  void begin_stream(HttpResponse head) override { stream_ = std::move(head); }
  void write(std::string chunk) override { stream_.body += chunk; }
  void end_stream() override { give(std::move(stream_)); }
  bool is_gone() const override { return false; }
  void when_gone(std::function<void()> /*call*/) override {}

 private:
  void give(HttpResponse response) {
    is_answered_ = true;
    answer_.set_value(std::move(response));
  }

  HttpRequest request_;
  HttpResponse stream_;
  bool is_answered_ = false;
  std::promise<HttpResponse> answer_;
};

/// A copy of a model of tests/fixtures, with the tokenizer of another where it has none.
inline void copy_model(const std::filesystem::path& fixtures, const std::string& name,
                       const std::filesystem::path& target) {
  namespace fs = std::filesystem;
  fs::copy(fixtures / name, target, fs::copy_options::recursive);
  for (const char* file : {"tokenizer.json", "vocab.txt", "vocab.json"}) {
    if (fs::exists(target / file)) return;
  }
  for (const char* file : {"vocab.json", "merges.txt", "tokenizer_config.json"}) {
    fs::copy(fixtures / "tiny_roberta" / file, target / file, fs::copy_options::skip_existing);
  }
}

/// One model of every kind of head, all of them tiny, in a folder that the caller keeps.
inline LoadedModels tiny_models(const std::filesystem::path& fixtures,
                                const std::filesystem::path& folder) {
  const std::pair<const char*, const char*> names[] = {
      {"vectors", "sentence_dense"},  {"classes", "tiny_longformer_classifier"},
      {"tokens", "tiny_bert_tagger"}, {"answers", "tiny_longformer_qa"},
      {"masks", "tiny_roberta"},      {"choice", "tiny_longformer_choice"},
      {"coreference", "coreference"}, {"summary", "tiny_led"},
      {"colbert", "vectors_colbert"}};
  LoadedModels models;
  LoadOptions options = {.threads = 2};
  options.turns = shared_turns();
  for (const auto& [name, fixture] : names) {
    copy_model(fixtures, fixture, folder / name);
    models.all.push_back(load_served(std::string(name) + "=" + (folder / name).string(), options));
  }
  return models;
}

class ServedModels {
 public:
  ServedModels(LoadedModels models, std::int64_t most_library_bytes)
      : library_(std::make_unique<Library>(*models.find("", Ability::embed).embedder, "",
                                           LibraryLimits{.bytes = most_library_bytes})),
        api_(std::move(models), std::move(library_), std::make_shared<Metrics>(), {}),
        server_(api_, options()) {}

  /// The answer that a client would get: a refusal, or that of the route.
  HttpResponse ask(HttpRequest request) {
    if (auto refusal = server_.refuse(request)) return std::move(*refusal);
    auto exchange = std::make_shared<HeldExchange>(std::move(request));
    std::future<HttpResponse> answer = exchange->answer();
    server_.handle(std::move(exchange));
    return answer.get();
  }

 private:
  static ServerOptions options() {
    ServerOptions options;
    options.http.port = 0;
    options.log = [](const std::string&) {};
    return options;
  }

  std::unique_ptr<Library> library_;
  Api api_;
  Server server_;
};

}  // namespace longformer::server
