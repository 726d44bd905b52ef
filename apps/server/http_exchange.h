// The exchange that a handler sees, and the way from its threads to that of the sockets.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "http.h"

namespace longformer::server {

/// Takes calls to the thread of the sockets until it is closed, before the sockets go away.
class Gate {
 public:
  virtual ~Gate() = default;
  /// Calls run in the order of their post(), also of one on the thread of the sockets.
  void post(std::function<void()> call);
  void close();

 private:
  virtual void pass(std::function<void()> call) = 0;

  std::mutex mutex_;
  bool is_open_ = true;
};

/// The body of one request among those that the server holds.
class HeldBytes {
 public:
  explicit HeldBytes(std::shared_ptr<std::atomic<std::size_t>> all) : all_(std::move(all)) {}
  HeldBytes(HeldBytes&&) = default;
  HeldBytes& operator=(HeldBytes&&) = delete;
  ~HeldBytes() {
    if (all_) *all_ -= size_;
  }

  /// Whether a body of this size would fit now.
  bool has_room(std::size_t size, std::size_t most) const { return *all_ - size_ + size <= most; }
  /// False, and nothing grows, where the server would hold more than `most` bytes in all.
  bool grow_to(std::size_t size, std::size_t most) {
    if (size <= size_) return true;
    const std::size_t further = size - size_;
    if (all_->fetch_add(further) + further > most) {
      *all_ -= further;
      return false;
    }
    size_ = size;
    return true;
  }

 private:
  std::shared_ptr<std::atomic<std::size_t>> all_;
  std::size_t size_ = 0;
};

/// A request on its way, which its connection and its exchange share.
struct Job {
  Job(HttpRequest whole, HeldBytes its_bytes)
      : request(std::move(whole)), bytes(std::move(its_bytes)) {}

  const HttpRequest request;
  const HeldBytes bytes;
  std::atomic<bool> is_gone = false;
  /// Bytes of chunks that write() took and the system did not yet.
  std::atomic<std::size_t> unsent = 0;
  /// Both for the thread of the sockets alone.
  bool is_answered = false;
  std::vector<std::function<void()>> when_gone;
};

/// The connection as the exchange sees it, on the thread of the sockets. A job other than the
/// present one is over, and calls about it do nothing.
class Answering {
 public:
  virtual ~Answering() = default;
  virtual void respond(Job& job, HttpResponse response) = 0;
  virtual void begin_stream(Job& job, HttpResponse head) = 0;
  virtual void write(Job& job, std::string chunk) = 0;
  virtual void end_stream(Job& job) = 0;
  /// The job ends unanswered.
  virtual void fail(Job& job) = 0;
  /// The stream ends without its end.
  virtual void cut_off(Job& job) = 0;
  /// Something changed that the connection waits for.
  virtual void notify() = 0;
};

/// The exchange as the handler sees it. Everything becomes a call on the thread of the sockets.
class Exchange final : public HttpExchange {
 public:
  Exchange(std::shared_ptr<Gate> gate, std::weak_ptr<Answering> connection,
           std::shared_ptr<Job> job, std::size_t most_unsent)
      : gate_(std::move(gate)),
        connection_(std::move(connection)),
        job_(std::move(job)),
        most_unsent_(most_unsent) {}

  ~Exchange() override {
    const Stage stage = stage_.load();
    if (stage == Stage::over) return;
    try {
      post([stage](Answering& connection, Job& job) {
        stage == Stage::open ? connection.fail(job) : connection.cut_off(job);
      });
    } catch (const std::exception&) {
      // Without memory for the call the client waits until the server stops.
    }
  }

  const HttpRequest& request() const override { return job_->request; }

  void respond(HttpResponse response) override {
    if (!enter(Stage::open, Stage::over)) return;
    post([response = std::move(response)](Answering& connection, Job& job) mutable {
      connection.respond(job, std::move(response));
    });
  }

  void begin_stream(HttpResponse head) override {
    if (!enter(Stage::open, Stage::stream)) return;
    post([head = std::move(head)](Answering& connection, Job& job) mutable {
      connection.begin_stream(job, std::move(head));
    });
  }

  void write(std::string chunk) override {
    if (stage_ != Stage::stream || chunk.empty() || is_gone()) return;
    if (job_->unsent.fetch_add(chunk.size()) + chunk.size() > most_unsent_) {
      job_->is_gone = true;
      post([](Answering& connection, Job&) { connection.notify(); });
      return;
    }
    post([chunk = std::move(chunk)](Answering& connection, Job& job) mutable {
      connection.write(job, std::move(chunk));
    });
  }

  void end_stream() override {
    if (!enter(Stage::stream, Stage::over)) return;
    post([](Answering& connection, Job& job) { connection.end_stream(job); });
  }

  bool is_gone() const override { return job_->is_gone; }

  void when_gone(std::function<void()> call) override {
    gate_->post([job = job_, call = std::move(call)]() mutable {
      if (job->is_answered) return;
      if (job->is_gone) {
        call();
      } else {
        job->when_gone.push_back(std::move(call));
      }
    });
  }

 private:
  enum class Stage { open, stream, over };

  bool enter(Stage from, Stage to) { return stage_.compare_exchange_strong(from, to); }

  template <typename Call>
  void post(Call call) {
    gate_->post([connection = connection_, job = job_, call = std::move(call)]() mutable {
      if (const std::shared_ptr<Answering> there = connection.lock()) call(*there, *job);
    });
  }

  const std::shared_ptr<Gate> gate_;
  const std::weak_ptr<Answering> connection_;
  const std::shared_ptr<Job> job_;
  const std::size_t most_unsent_;
  std::atomic<Stage> stage_ = Stage::open;
};

}  // namespace longformer::server
