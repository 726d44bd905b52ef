// Log of a training: log.jsonl, and TensorBoard event files in runs/.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/event_file.h"

namespace longformer::training {

class Log {
 public:
  /// Begins log.jsonl with the lines of a history; when resumed, viewers of the event files drop
  /// what lies behind that step. Throws Error.
  Log(const std::filesystem::path& output_dir, const std::vector<nlohmann::ordered_json>& history,
      std::int64_t resumed_step);

  /// Appends an object, which has a "step"; it is in the file when this returns. Its numbers go to
  /// the event file too, those named eval_NAME as eval/NAME, all others as train/NAME. Throws
  /// Error.
  void write(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  std::ofstream lines_;
  formats::EventFile events_;
};

}  // namespace longformer::training
