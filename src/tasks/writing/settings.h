// The settings that a text is written with: those of the call, of the folder, and the defaults of
// `transformers` (docs/spec/led-and-generation.md#b6, #b7).
#pragma once

#include <functional>
#include <string>

#include "core/dtype.h"
#include "formats/json.h"
#include "formats/unused_keys.h"
#include "longformer/options.h"

namespace longformer::tasks {

/// The settings of a folder: of generation_config.json if it exists, and then nothing of
/// config.json; else the keys that stand in config.json. Throws Error that names file, key,
/// expected and found. `note` gets one line for keys that mean nothing here.
GenerationOptions folder_generation_options(const std::string& folder,
                                            const std::function<void(const std::string&)>& note);

/// The options of a JSON object. Other keys are left unread.
GenerationOptions parse_generation_options(const formats::ConfigReader& config);

/// Keys of generation_config.json that nothing here reads and that change no text.
const formats::HarmlessKeys& harmless_generation_keys();

/// Every option has a value, but for those that switch something on.
struct GenerationSettings {
  GenerationOptions options;
  Index num_beams = 1, num_return_sequences = 1;
  bool do_sample = false;
  float length_penalty = 1;
  /// early_stopping.
  enum class Stopping { usual, early, never };
  Stopping stopping = Stopping::usual;
  std::int32_t start_token = 0;
  std::vector<std::int32_t> ends;
  /// Tokens of a text with its prompt, at most and at least.
  Index limit = 0, least = 0;
  std::uint64_t seed = 0;

  bool is_end(std::int32_t id) const;
};

/// Facts of a model that generation depends on.
struct GenerationModel {
  Index vocab_size = 0;
  /// Longest text in tokens.
  Index max_tokens = 0;
  /// Tokens of the prompt, the start token included.
  Index prompt_tokens = 1;
};

/// Options of the call before those of the folder. Throws Error for values that transformers
/// refuses; `note` gets a line for options of the call that have no effect.
GenerationSettings generation_settings(const GenerationOptions& call,
                                       const GenerationOptions& folder,
                                       const GenerationModel& model,
                                       const std::function<void(const std::string&)>& note);

}  // namespace longformer::tasks
