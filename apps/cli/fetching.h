// Models of the Hub that are fetched before a verb begins.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>

#include "longformer/hub.h"
#include "messages.h"
#include "progress.h"

namespace longformer::cli {

/// Tells what a pull fetches as a note, and how far it is as a line.
class PullReport {
 public:
  explicit PullReport(Messages& messages);

  /// Callbacks that the report must outlive.
  PullOptions options();

 private:
  void tell_plan(const PullPlan& plan) const;
  void tell_progress(const PullProgress& progress);

  using Clock = std::chrono::steady_clock;
  Messages& messages_;
  ProgressLine line_;
  Clock::time_point begin_ = Clock::now();
  /// Bytes that were there at the first call; -1 before it.
  std::int64_t bytes_before_ = -1;
};

/// Fetches the models that the command line of a verb names, where the cache lacks them, and puts
/// the folders of adapters in the place of their names. Throws Error.
void fetch_models(CLI::App& verb, Messages& messages);

}  // namespace longformer::cli
