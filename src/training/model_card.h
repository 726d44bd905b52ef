// The README.md of a trained model, as model cards of the Hugging Face Hub are: YAML between lines
// of three dashes, then Markdown.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "longformer/options.h"
#include "longformer/training.h"

namespace longformer::training {

/// Facts of a training that its result and options do not have.
struct ModelCard {
  /// The verb of the program, and the task it trains for.
  std::string verb = {}, task = {};
  /// The name of the model's folder.
  std::string name = {};
  /// The model that the training began with, as people know it: ORGANISATION/NAME of the Hub, or
  /// the name of a folder; empty: the weights were drawn.
  std::string base = {};
  /// Names that the Hub knows; empty: none.
  std::string library = {}, pipeline = {};
  std::vector<std::string> tags = {};
  /// Rows of the table of data: what it is, and a number or a name.
  std::vector<std::pair<std::string, std::string>> data = {};
  /// Labels with their numbers of examples.
  std::vector<std::pair<std::string, std::string>> labels = {};
};

/// The part of a path that may be published: ORGANISATION/NAME of a model in the cache of the Hub,
/// else the last name.
std::string public_name(const std::string& path);

/// `options` are those of the verb, `usual` those of a training for which nothing was said.
std::string text_of(const ModelCard& card, const OptionFields& options, const OptionFields& usual,
                    const TrainingResult& result);

/// Writes the card as README.md. A README.md that was not written so, or was edited since, stays;
/// then the card has another name. Returns a note about that; empty: there is none. Throws Error.
std::string place_model_card(const std::filesystem::path& folder, const std::string& text);

}  // namespace longformer::training
