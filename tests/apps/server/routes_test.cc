// All routes at once from several threads, each with the answer that it gives alone.
// Links: library
// Reruns: tsan
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fixtures.h"
#include "served.h"
#include "temporary_folder.h"

namespace longformer::server::routes_test {
namespace {

struct Question {
  const char* method;
  const char* path;
  const char* body;
  int status = 200;
};

/// Each route that keeps nothing, with an answer and with an error.
const std::vector<Question> kQuestions = {
    {"POST", "/embed", R"({"inputs": ["the of and", "he was in"], "dimensions": 3})"},
    {"POST", "/embed", R"({"inputs": 3})", 422},
    {"POST", "/embed", R"({"inputs": [""]})", 400},
    {"POST", "/embed", R"({"inputs": )", 400},
    {"POST", "/embed_all", R"({"inputs": "the of and"})"},
    {"POST", "/embed_multi", R"({"inputs": ["the of and", "he"], "as_query": true})"},
    {"POST", "/embed_multi", R"({"inputs": "the", "model": "vectors"})", 424},
    {"POST", "/embed_sparse", R"({"inputs": "the"})", 424},
    {"POST", "/embed_passages", R"({"inputs": "the of and he was", "passage_tokens": 4})"},
    {"POST", "/similarity",
     R"({"inputs": {"source_sentence": "the", "sentences": ["of", "and"]}})"},
    {"POST", "/v1/embeddings", R"({"input": ["the of", "and he"], "encoding_format": "base64"})"},
    {"POST", "/predict", R"({"inputs": [["the of"], ["and", "he was"]]})"},
    {"POST", "/classify", R"({"inputs": "the of and", "top_k": 2})"},
    {"POST", "/classify", R"({"inputs": "the", "model": "vectors"})", 424},
    {"POST", "/rerank", R"({"query": "the", "texts": ["of"]})", 424},
    {"POST", "/tokenize", R"({"inputs": ["the of and"]})"},
    {"POST", "/decode", R"({"ids": [5, 6]})"},
    {"POST", "/ner", R"({"inputs": "the of and he was"})"},
    {"POST", "/qa", R"({"question": "the", "context": "of and he was in"})"},
    {"POST", "/qa_multi_hop", R"({"question": "the", "paragraphs": [{"text": "of"}]})", 424},
    {"POST", "/fill-mask", R"({"inputs": "the <mask> and", "top_k": 2})"},
    {"POST", "/choose", R"({"question": "the", "choices": ["of", "and"]})"},
    {"POST", "/coref", R"({"inputs": "he was in the and he was"})"},
    {"POST", "/attention", R"({"inputs": "the of and", "top_k": 2})"},
    {"POST", "/summarize", R"({"inputs": "the of and he", "max_new_tokens": 4})"},
    {"POST", "/summarize", R"({"inputs": "the of and", "max_new_tokens": 3, "stream": true})"},
    {"POST", "/generate", R"({"inputs": "the of and he", "max_new_tokens": 4, "num_beams": 2})"},
    {"POST", "/models/tokens", R"({"inputs": "the of", "parameters": {}})"},
    {"POST", "/models/nobody", R"({"inputs": "the"})", 404},
    {"POST", "/compare", R"({"a": "x", "b": "y"})", 404},
    {"POST", "/search", R"({"query": "the", "texts": ["the of", "and he"]})"},
    {"GET", "/v1/models", ""},
    {"GET", "/info", ""},
    {"GET", "/health", ""},
    {"GET", "/documents", ""},
    {"GET", "/openapi.json", ""},
    {"GET", "/nothing", "", 404},
    {"DELETE", "/embed", "", 405},
};

HttpRequest request_of(const Question& question) {
  HttpRequest request;
  request.method = question.method;
  request.path = question.path;
  request.headers = {{"Host", "localhost"}, {"Content-Type", "application/json"}};
  request.body = question.body;
  request.arrival = std::chrono::steady_clock::now();
  return request;
}

using Json = nlohmann::json;

/// The body without what time decides; a stream is its text.
Json lasting(const HttpResponse& response) {
  Json json = Json::parse(response.body, nullptr, false);
  if (json.is_object()) json.erase("seconds");
  return json.is_discarded() ? Json(response.body) : json;
}

/// Rounding depends on which other rows are in a batch; bytes in base64 are compared by length.
bool alike(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    return std::abs(a.get<double>() - b.get<double>()) <=
           1e-4 * std::max(1.0, std::abs(a.get<double>()));
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_string()) return a == b || a.get<std::string>().size() == b.get<std::string>().size();
  if (!a.is_structured()) return a == b;
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    if ((a.is_object() && x.key() != y.key()) || !alike(*x, *y)) return false;
  }
  return true;
}

/// Servers are made one after the other: each has nine models.
class Routes : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  ServedModels served_{tiny_models(fixtures_folder(), folder_.path()), 1 << 20};
};

TEST_F(Routes, AnswerManyThreadsAsOne) {
  std::vector<Json> alone;
  for (const Question& question : kQuestions) {
    const HttpResponse response = served_.ask(request_of(question));
    EXPECT_EQ(response.status, question.status) << question.path << " " << response.body;
    alone.push_back(lasting(response));
  }
  std::vector<std::thread> threads;
  std::atomic<int> different = 0;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int i = 0; i < 60; ++i) {
        const std::size_t which = random() % kQuestions.size();
        const HttpResponse response = served_.ask(request_of(kQuestions[which]));
        const bool is_same =
            response.status == kQuestions[which].status && alike(alone[which], lasting(response));
        if (!is_same) ++different;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different, 0);
}

TEST_F(Routes, KeepDocumentsOfManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  const auto expect = [&](const Question& question) {
    const HttpResponse response = served_.ask(request_of(question));
    if (response.status != question.status) ++failed;
    return Json::parse(response.body, nullptr, false);
  };
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 4; ++i) {
        const std::string text =
            "the of and " + std::string(static_cast<std::size_t>(1 + 4 * i + thread), 'x');
        const std::string body = Json{{"name", text}, {"text", text}}.dump();
        const auto made = expect({"POST", "/documents", body.c_str(), 201});
        expect({"POST", "/search", R"({"query": "the of", "top_k": 3})", 200});
        const std::string path = "/documents/" + made.value("id", std::string("none"));
        expect({"GET", (path + "/text").c_str(), "", 200});
        if (i % 2 == 0) expect({"DELETE", path.c_str(), "", 204});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const HttpResponse list = served_.ask(request_of({"GET", "/documents", ""}));
  EXPECT_EQ(Json::parse(list.body)["documents"].size(), 6u);
}

}  // namespace
}  // namespace longformer::server::routes_test
