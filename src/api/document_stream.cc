#include "api/document_stream.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "api/finite_results.h"
#include "core/error.h"

namespace longformer {
namespace {

std::int64_t tokens_of(const SegmentedDocument& document) {
  std::int64_t tokens = 0;
  for (const Segment& segment : document.segments) {
    tokens += static_cast<std::int64_t>(segment.tokens.ids.size());
  }
  return tokens;
}

/// Documents between the two threads; holds the producer back when many tokens wait.
class Queue {
 public:
  explicit Queue(std::int64_t most_tokens) : most_tokens_(most_tokens) {}

  /// Whether the consumer wants more.
  bool push(SegmentedDocument document) {
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
  std::optional<SegmentedDocument> pop(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) changed_.wait(lock, [&] { return finished_ || !documents_.empty(); });
    if (documents_.empty()) {
      if (wait && error_) std::rethrow_exception(error_);
      return std::nullopt;
    }
    SegmentedDocument document = std::move(documents_.front());
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
  static constexpr std::size_t kMostDocuments = 4096;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SegmentedDocument> documents_;
  std::int64_t tokens_ = 0;
  std::int64_t most_tokens_;
  bool finished_ = false;
  bool closed_ = false;
  std::exception_ptr error_;
};

/// The thread that fills a queue; joined when it goes out of scope.
class Producer {
 public:
  Producer(Queue& queue, const std::function<std::optional<SegmentedDocument>()>& next)
      : queue_(queue), thread_([&queue, &next] {
          try {
            bool wanted = true;
            while (wanted) {
              std::optional<SegmentedDocument> document = next();
              if (!document) break;
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

/// A document some of whose segments have been run.
struct Flight {
  SegmentedDocument document;
  std::vector<DocumentOutput> outputs;
  bool complete() const {
    return !document.error.empty() || outputs.size() == document.segments.size();
  }
};

DocumentInput input_of(const Segment& segment) {
  return {.ids = segment.tokens.ids,
          .attention_mask = {},
          .token_type_ids = segment.tokens.type_ids,
          .position_ids = {},
          .global_attention_mask = segment.global_mask};
}

/// Empty when all that the head says is finite.
std::string why_no_result(const DocumentOutput& output) {
  for (const auto* logits : {&output.logits, &output.start_logits, &output.end_logits}) {
    if (std::string reason = why_not_finite(*logits, "logits"); !reason.empty()) return reason;
  }
  return "";
}

/// The consumer: keeps the documents that are under way, in order.
class Consumer {
 public:
  Consumer(const Model& model, const StreamOptions& options, Queue& queue)
      : model_(model), options_(options), queue_(queue) {}

  /// Runs the next batch; false when there is nothing left.
  bool run_batch() {
    std::vector<DocumentInput> inputs;
    std::vector<std::size_t> owners;
    std::int64_t tokens = 0;
    for (std::size_t flight = 0;; ++flight) {
      if (flight == flights_.size() && !take_document(inputs.empty() && flight == 0)) break;
      const Flight& current = flights_[flight];
      if (!current.document.error.empty()) continue;
      for (std::size_t s = current.outputs.size(); s < current.document.segments.size(); ++s) {
        const DocumentInput input = input_of(current.document.segments[s]);
        const auto size = static_cast<std::int64_t>(input.ids.size());
        if (!inputs.empty() && tokens + size > options_.batch_tokens) {
          forward(inputs, owners);
          return true;
        }
        tokens += size;
        inputs.push_back(input);
        owners.push_back(flight);
      }
    }
    forward(inputs, owners);
    return !flights_.empty();
  }

  /// The first document, when it is complete.
  std::optional<Flight> finished() {
    if (flights_.empty() || !flights_.front().complete()) return std::nullopt;
    Flight flight = std::move(flights_.front());
    flights_.pop_front();
    return flight;
  }

 private:
  bool take_document(bool wait) {
    std::optional<SegmentedDocument> document = queue_.pop(wait);
    if (document) flights_.push_back({std::move(*document), {}});
    return document.has_value();
  }

  void forward(std::span<const DocumentInput> inputs, std::span<const std::size_t> owners) {
    const ForwardOptions options = {.last_hidden_state = false};
    try {
      std::vector<DocumentOutput> outputs = model_.forward(inputs, options);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        Flight& flight = flights_[owners[i]];
        if (flight.document.error.empty()) flight.document.error = why_no_result(outputs[i]);
        flight.outputs.push_back(std::move(outputs[i]));
      }
    } catch (const Error& error) {
      // One document spoils the batch; taken one by one, the others keep their results.
      if (inputs.size() > 1) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          forward(inputs.subspan(i, 1), owners.subspan(i, 1));
        }
      } else {
        flights_[owners[0]].document.error = error.what();
      }
    }
  }

  const Model& model_;
  const StreamOptions& options_;
  Queue& queue_;
  std::deque<Flight> flights_;
};

}  // namespace

void stream_documents(
    const Model& model, const StreamOptions& options,
    const std::function<std::optional<SegmentedDocument>()>& next,
    const std::function<void(const SegmentedDocument&, std::span<const DocumentOutput>)>& done) {
  require(options.batch_tokens > 0, "batch tokens: expected more than 0, found {}",
          options.batch_tokens);
  Queue queue(4 * options.batch_tokens);
  const Producer producer(queue, next);
  Consumer consumer(model, options, queue);
  while (consumer.run_batch()) {
    while (const std::optional<Flight> flight = consumer.finished()) {
      const bool failed = !flight->document.error.empty();
      done(flight->document, failed ? std::span<const DocumentOutput>() : flight->outputs);
    }
  }
}

}  // namespace longformer
