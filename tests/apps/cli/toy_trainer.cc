// toy_trainer: trains the network of toy_network.h with the flags and messages of the program, for
// tests that kill, stop and resume it.
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <thread>

#include "core/error.h"
#include "option_flags.h"
#include "toy_network.h"
#include "training_flags.h"
#include "training_report.h"

namespace longformer::cli {
namespace {

/// Takes its time, and may have a loss that is not a number.
class SlowNetwork : public toy::Network {
 public:
  SlowNetwork(std::int64_t pause, std::int64_t bad_step)
      : pause_(std::chrono::milliseconds(pause)), bad_step_(bad_step) {}

  training::MicroBatchLoss run(const training::MicroBatch& batch) override {
    std::this_thread::sleep_for(pause_);
    training::MicroBatchLoss loss = toy::Network::run(batch);
    if (batch.step + 1 == bad_step_) loss.loss = std::nan("");
    return loss;
  }

 private:
  std::chrono::milliseconds pause_;
  std::int64_t bad_step_;
};

int run(int count, char** values) {
  CLI::App program("trains a toy", "toy_trainer");
  TrainingOptions options{.logging_steps = 5, .save_steps = 7};
  std::int64_t pause = 0;
  std::int64_t bad_step = 0;
  bool json = false;
  add_fields(program, fields(options));
  program.get_option("--output-dir")->required();
  add_number(program, "--pause", pause, {}, "milliseconds of a micro-batch");
  add_number(program, "--bad-step", bad_step, {}, "step whose loss is not a number");
  program.add_flag("--json", json, "print the result as JSON");
  try {
    program.parse(count, values);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    throw UsageError(error.what());
  }
  check_training(options);

  Messages messages;
  SlowNetwork network(pause, bad_step);
  network.checkpoint(options.gradient_checkpointing);
  training::Phase phase = training::single_phase(options, 23);
  phase.cost = {.tokens_per_step = 16, .flops_per_token = 1e6, .activation_bytes = 123456789};
  training::Trainer trainer(
      {.options = options, .phases = {phase}, .gemm_flops = 1e9, .expected_fraction = 0.5},
      network.parameters(), network);
  TrainingReport report(messages);
  const TrainingResult result = trainer.run(report.callbacks());
  report.finish(result, options.output_dir, json);
  return messages.exit_code();
}

}  // namespace
}  // namespace longformer::cli

int main(int count, char** values) {
  using namespace longformer::cli;
  // Files that may not grow are an error of writing, told as such.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run(count, values);
  } catch (const UsageError& error) {
    print_error(error.what());
    return kUsage;
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return kFailure;
}
