#include "metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace longformer::server {
namespace {

/// 1.5^k · 10 µs to 14 s, as in TEI, and then the minutes of books.
std::vector<double> duration_bounds() {
  std::vector<double> bounds;
  for (int k = 1; k <= 35; ++k) bounds.push_back(std::pow(1.5, k) * 1e-5);
  bounds.insert(bounds.end(), {30, 60, 120, 300});
  return bounds;
}

std::vector<double> length_bounds() {
  std::vector<double> bounds;
  for (int k = 0; k <= 20; ++k) bounds.push_back(std::exp2(k));
  return bounds;
}

void head(std::string& text, std::string_view name, std::string_view type) {
  fmt::format_to(std::back_inserter(text), "# TYPE {} {}\n", name, type);
}

void gauge(std::string& text, std::string_view name, double value) {
  head(text, name, "gauge");
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

void counter(std::string& text, std::string_view name, std::int64_t value) {
  head(text, name, "counter");
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

std::int64_t open_files() {
  std::error_code error;
  std::filesystem::directory_iterator files("/proc/self/fd", error);
  return error ? 0 : std::distance(begin(files), end(files));
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

void Histogram::add(double value) {
  const auto place = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(place)];
  sum_ += value;
}

void Histogram::write(std::string& text, std::string_view name) const {
  head(text, name, "histogram");
  std::int64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    fmt::format_to(std::back_inserter(text), "{}_bucket{{le=\"{}\"}} {}\n", name, bound, count);
  }
  fmt::format_to(std::back_inserter(text), "{0}_sum {1}\n{0}_count {2}\n", name, sum_, count);
}

Durations::Durations()
    : total_(duration_bounds()),
      tokenization_(duration_bounds()),
      queue_(duration_bounds()),
      inference_(duration_bounds()) {}

void Durations::add(const RequestFacts& facts) {
  total_.add(facts.total);
  tokenization_.add(facts.tokenization);
  queue_.add(facts.queue);
  inference_.add(facts.inference);
}

void Durations::write(std::string& text, std::string_view prefix) const {
  total_.write(text, fmt::format("{}_duration", prefix));
  tokenization_.write(text, fmt::format("{}_tokenization_duration", prefix));
  queue_.write(text, fmt::format("{}_queue_duration", prefix));
  inference_.write(text, fmt::format("{}_inference_duration", prefix));
}

Metrics::Metrics()
    : lengths_(length_bounds()), batch_sizes_(length_bounds()), batch_tokens_(length_bounds()) {}

void Metrics::add(const PassReport& pass) {
  // Seconds of passes after which the former ones count half.
  constexpr double kMemory = 10;
  const std::lock_guard lock(mutex_);
  batch_sizes_.add(static_cast<double>(pass.documents));
  batch_tokens_.add(static_cast<double>(pass.tokens));
  if (pass_seconds_ > kMemory) {
    pass_seconds_ /= 2;
    pass_tokens_ /= 2;
  }
  pass_seconds_ += pass.seconds;
  pass_tokens_ += static_cast<double>(pass.tokens);
}

void Metrics::add(const RequestFacts& facts) {
  const std::lock_guard lock(mutex_);
  ++requests_[facts.is_batch ? 1 : 0];
  if (!facts.kind.empty()) ++kinds_[std::string(facts.kind)];
  if (!facts.failure.empty()) {
    ++failures_[std::string(facts.failure)];
    return;
  }
  ++successes_[facts.is_batch ? 1 : 0];
  if (!facts.kind.empty()) {
    ++kind_successes_[std::string(facts.kind)];
    kind_durations_[std::string(facts.kind)].add(facts);
  }
  if (!facts.model.empty()) tokens_[facts.model] += facts.tokens;
  durations_.add(facts);
  lengths_.add(static_cast<double>(facts.tokens));
}

std::string Metrics::text(const MetricGauges& gauges) const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto out = std::back_inserter(text);
  const auto methods = [&](std::string_view name, const std::array<std::int64_t, 2>& counts) {
    head(text, name, "counter");
    fmt::format_to(out, "{0}{{method=\"single\"}} {1}\n{0}{{method=\"batch\"}} {2}\n", name,
                   counts[0], counts[1]);
  };
  methods("te_request_count", requests_);
  methods("te_request_success", successes_);
  head(text, "te_request_failure", "counter");
  for (const auto& [name, count] : failures_) {
    fmt::format_to(out, "te_request_failure{{err=\"{}\"}} {}\n", name, count);
  }
  for (const auto& [name, count] : kinds_) {
    counter(text, fmt::format("te_{}_count", name), count);
  }
  for (const auto& [name, count] : kind_successes_) {
    counter(text, fmt::format("te_{}_success", name), count);
  }
  for (const auto& [name, durations] : kind_durations_) {
    durations.write(text, fmt::format("te_{}", name));
  }
  durations_.write(text, "te_request");
  lengths_.write(text, "te_request_input_length");
  batch_sizes_.write(text, "te_batch_next_size");
  batch_tokens_.write(text, "te_batch_next_tokens");
  gauge(text, "te_queue_size", static_cast<double>(gauges.queued));
  head(text, "longformer_tokens_total", "counter");
  for (const auto& [model, tokens] : tokens_) {
    std::string name = model;
    std::erase_if(name, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
    fmt::format_to(out, "longformer_tokens_total{{model=\"{}\"}} {}\n", name, tokens);
  }
  const auto dropped = failures_.find("dropped");
  counter(text, "longformer_cancelled_total", dropped == failures_.end() ? 0 : dropped->second);
  counter(text, "longformer_preemptions_total", gauges.preemptions);
  gauge(text, "longformer_tokens_per_second", pass_seconds_ > 0 ? pass_tokens_ / pass_seconds_ : 0);
  gauge(text, "longformer_backlog_seconds", gauges.backlog_seconds);
  gauge(text, "longformer_connections", static_cast<double>(gauges.connections));
  head(text, "longformer_build_info", "gauge");
  fmt::format_to(out, "longformer_build_info{{version=\"{}\",isa=\"{}\"}} 1\n", gauges.version,
                 gauges.isa);
  gauge(text, "process_resident_memory_bytes", resident_bytes());
  head(text, "process_cpu_seconds_total", "counter");
  fmt::format_to(out, "process_cpu_seconds_total {}\n", cpu_seconds());
  gauge(text, "process_open_fds", static_cast<double>(open_files()));
  const auto start = std::chrono::duration<double>(start_.time_since_epoch()).count();
  gauge(text, "process_start_time_seconds", start);
  return text;
}

}  // namespace longformer::server
