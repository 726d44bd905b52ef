// Counters of a server in the text form of Prometheus, under the names of
// text-embeddings-inference, so that its dashboards work.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/model.h"

namespace longformer::server {

/// Counts of values up to each of the bounds.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds)
      : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void add(double value);
  void write(std::string& text, std::string_view name) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::int64_t> counts_;
  double sum_ = 0;
};

/// The facts of a request that is over.
struct RequestFacts {
  bool is_batch = false;
  /// "embed", "predict" or empty.
  std::string_view kind = {};
  /// Empty for success; else overloaded, validation, tokenization, batch_size, model_type,
  /// inference or dropped.
  std::string_view failure = {};
  std::string model = {};
  std::int64_t tokens = 0;
  double total = 0, tokenization = 0, queue = 0, inference = 0;
};

/// Values that are read when somebody asks.
struct MetricGauges {
  std::int64_t connections = 0, queued = 0, preemptions = 0;
  double backlog_seconds = 0;
  std::string version, isa;
};

/// Durations of requests, whole and in parts.
class Durations {
 public:
  Durations();

  void add(const RequestFacts& facts);
  /// Histograms under PREFIX_duration, PREFIX_queue_duration, ….
  void write(std::string& text, std::string_view prefix) const;

 private:
  Histogram total_, tokenization_, queue_, inference_;
};

/// Any thread.
class Metrics {
 public:
  Metrics();

  void add(const RequestFacts& facts);
  void add(const PassReport& pass);
  std::string text(const MetricGauges& gauges) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::int64_t, 2> requests_ = {}, successes_ = {};
  std::map<std::string, std::int64_t, std::less<>> failures_, kinds_, kind_successes_;
  std::map<std::string, std::int64_t> tokens_;
  Durations durations_;
  std::map<std::string, Durations, std::less<>> kind_durations_;
  Histogram lengths_, batch_sizes_, batch_tokens_;
  /// Tokens and seconds of the latest passes.
  double pass_tokens_ = 0, pass_seconds_ = 0;
  std::chrono::system_clock::time_point start_ = std::chrono::system_clock::now();
};

}  // namespace longformer::server
