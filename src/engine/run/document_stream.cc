#include "engine/run/document_stream.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "core/error.h"
#include "engine/run/finite_results.h"
#include "engine/run/model_implementation.h"
#include "engine/run/runner.h"
#include "longformer/report.h"
#include "text/encoding_time.h"

namespace longformer {
namespace {

std::int64_t tokens_of(const Document& document) {
  std::int64_t tokens = 0;
  for (const engine::TokenRow& row : document.reading.rows) {
    tokens += static_cast<std::int64_t>(row.ids.size());
  }
  return tokens;
}

/// Documents between the two threads; holds the producer back when many tokens wait.
class Queue {
 public:
  explicit Queue(std::int64_t most_tokens) : most_tokens_(most_tokens) {}

  /// Whether the consumer wants more.
  bool push(Document document) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return closed_ || (tokens_ < most_tokens_ && documents_.size() < kMostDocuments);
    });
    if (closed_) return false;
    tokens_ += tokens_of(document);
    documents_.push_back(std::move(document));
    changed_.notify_all();
    return true;
  }

  /// No more documents come, because of the error unless it is null.
  void finish(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    finished_ = true;
    error_ = std::move(error);
    changed_.notify_all();
  }

  /// The next document; with `wait` absent only at the end, else also when there is none yet.
  std::optional<Document> pop(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) wait_for_document(lock);
    if (documents_.empty()) {
      if (wait && error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    Document document = std::move(documents_.front());
    documents_.pop_front();
    tokens_ -= tokens_of(document);
    changed_.notify_all();
    return document;
  }

  /// The consumer wants nothing more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  void wait_for_document(std::unique_lock<std::mutex>& lock) {
    const text::EncodingTime time;
    while (!changed_.wait_for(lock, kPause, [&] { return finished_ || !documents_.empty(); })) {
      Interruption::poll();
    }
  }

  static constexpr std::size_t kMostDocuments = 4096;
  /// How often a wait lets itself be interrupted.
  static constexpr std::chrono::milliseconds kPause{100};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Document> documents_;
  std::int64_t tokens_ = 0;
  std::int64_t most_tokens_;
  bool finished_ = false;
  bool closed_ = false;
  std::exception_ptr error_;
};

/// The thread that fills a queue; joined when it goes out of scope.
class Producer {
 public:
  Producer(Queue& queue, Pending& pending, const std::function<std::optional<Document>()>& next)
      : queue_(queue), thread_([&queue, &pending, &next] {
          try {
            bool wanted = true;
            while (wanted) {
              std::optional<Document> document = next();
              if (!document) break;
              pending.add(tokens_of(*document));
              wanted = queue.push(std::move(*document));
            }
            queue.finish(nullptr);
          } catch (...) {
            queue.finish(std::current_exception());
          }
        }) {}
  ~Producer() {
    queue_.close();
    thread_.join();
  }
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

 private:
  Queue& queue_;
  std::thread thread_;
};

bool is_complete(const Document& document) {
  return !document.error.empty() || document.outputs.size() == document.reading.rows.size();
}

/// The consumer: keeps the documents that are under way, in order.
class Consumer {
 public:
  Consumer(const Model& model, const StreamOptions& options, Queue& queue, Pending& pending)
      : runner_(model.implementation().runner),
        options_(options),
        queue_(queue),
        pending_(pending) {}

  /// Runs the next batch; false when there is nothing left.
  bool run_batch() {
    Wave wave(Wanted::logits, options_.batch_tokens, &pending_);
    std::vector<Document*> owners;
    fill(wave, owners);
    const std::vector<RowResult> results = runner_.run(wave);
    for (std::size_t i = 0; i < results.size(); ++i) {
      Document& document = *owners[i];
      if (!document.error.empty()) continue;
      document.error = results[i].error;
      if (document.error.empty()) document.error = why_not_finite(results[i].values, "logits");
      document.outputs.push_back(results[i].values);
    }
    return !documents_.empty();
  }

  /// The first document, when it is complete.
  std::optional<Document> finished() {
    if (documents_.empty() || !is_complete(documents_.front())) return std::nullopt;
    Document document = std::move(documents_.front());
    documents_.pop_front();
    if (!document.error.empty()) document.outputs.clear();
    return document;
  }

 private:
  void fill(Wave& wave, std::vector<Document*>& owners) {
    for (std::size_t i = 0;; ++i) {
      if (i == documents_.size() && !take_document(wave.empty() && i == 0)) return;
      Document& document = documents_[i];
      if (!document.error.empty()) continue;
      const auto& rows = document.reading.rows;
      for (std::size_t row = document.outputs.size(); row < rows.size(); ++row) {
        if (!wave.add({.row = rows[row]})) return;
        owners.push_back(&document);
      }
    }
  }

  bool take_document(bool wait) {
    std::optional<Document> document = queue_.pop(wait);
    if (document) documents_.push_back(std::move(*document));
    return document.has_value();
  }

  Runner& runner_;
  const StreamOptions& options_;
  Queue& queue_;
  Pending& pending_;
  /// Their places do not change while some are taken and others come.
  std::deque<Document> documents_;
};

}  // namespace

void stream_documents(const Model& model, const StreamOptions& options,
                      const std::function<std::optional<Document>()>& next,
                      const std::function<void(const Document&)>& done) {
  require(options.batch_tokens > 0, OptionName("batch_tokens", "batch tokens"),
          "expected more than 0, found {}", options.batch_tokens);
  Queue queue(4 * options.batch_tokens);
  Pending pending;
  const Producer producer(queue, pending, next);
  Consumer consumer(model, options, queue, pending);
  while (consumer.run_batch()) {
    while (const std::optional<Document> document = consumer.finished()) done(*document);
  }
}

engine::GlobalPositions global_positions(const Model& model,
                                         const std::optional<GlobalAttention>& rule) {
  if (!rule) return nullptr;
  require(model.info().has_global_attention, OptionName("global_attention", "global attention"),
          "expected a model with windows, such as a Longformer, found {}", model.info().model_type);
  const Model::Implementation& loaded = model.implementation();
  const bool asks_for_some = rule->rule() != "none" && rule->rule() != "default";
  if (asks_for_some && loaded.note && !loaded.config.has_global_projections()) {
    loaded.note(fmt::format(
        "global attention: a model of model_type {} has layers with windows, but was not trained "
        "with global tokens; fine-tune it with the same rule",
        model.info().model_type));
  }
  return [model, rule = *rule](const Encoding& tokens, std::string_view text) {
    const std::vector<std::int32_t> mask = rule.mask(model, tokens, text);
    std::vector<Index> positions;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] != 0) positions.push_back(static_cast<Index>(i));
    }
    return positions;
  };
}

std::int64_t longest_document(const Model& model, std::int64_t max_length) {
  const std::int64_t most = model.info().max_tokens;
  require(max_length >= 0 && max_length <= most, OptionName("max_length"),
          "expected at most the model's {} tokens, found {}", most, max_length);
  return max_length > 0 ? max_length : most;
}

engine::ReadingOptions task_reading(const Model& model, TooLong too_long, std::int64_t stride,
                                    const std::optional<GlobalAttention>& rule) {
  engine::ReadingOptions reading = {.max_tokens = model.info().max_tokens,
                                    .too_long = too_long,
                                    .stride = stride,
                                    .global_positions = global_positions(model, rule)};
  const Model::Implementation& loaded = model.implementation();
  if (loaded.task == nullptr) return reading;
  loaded.task->check_too_long(too_long);
  if (rule) loaded.task->check_global_rule(rule->rule());
  return engine::with_globals(loaded.config, *loaded.task, "document", std::move(reading));
}

}  // namespace longformer
