// The files that a verb writes, held against those that it reads.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace longformer::cli {

/// The name under which a file is written until it is whole.
std::string temporary_name(const std::string& file);

/// The files that stand beside one that --resume goes on with: lines of JSON, and what made them.
struct ResumedNames {
  std::string lines, settings;
};
ResumedNames resumed_names(const std::string& output);

/// The file of the ids of an array's rows.
std::string ids_name(const std::string& array);

/// The files that the command line asks to write. Throws UsageError for one that it reads as well,
/// by whatever name, and for two that are one.
std::vector<std::string> checked_outputs(const CLI::App& verb);

}  // namespace longformer::cli
