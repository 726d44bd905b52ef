// The options of transformers' generate() as flags: num_beams is --num-beams.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "flags.h"
#include "longformer/generation.h"

namespace longformer::cli {

/// How texts are written, and from which documents.
struct WritingFlags {
  ModelFlags model;
  InputOptions inputs;
  GenerationRequest request;
  bool stream = false;
};

/// A flag for every option of GenerationOptions.
void add_generation_options(CLI::App& verb, GenerationOptions& options);
/// Name and value of every option that is set, as the flags take them.
std::vector<std::pair<std::string, std::string>> described(const GenerationOptions& options);

/// Remaining options: --seed, --truncate, --extend, --refuse, --stride, --together and
/// --global-attention.
void add_writing(CLI::App& verb, WritingFlags& flags);

/// Writes a text for every document and prints it. A summary is a text for which the first token of
/// the document has global attention and a length is set where the folder has none.
void write_texts(const WritingFlags& flags, bool summarizes, Messages& messages);

}  // namespace longformer::cli
