// How a family names its tensors: in files, and in its class of `transformers`, whose modules
// adapters are for.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace longformer::models {

/// Models ask for the names of BERT's encoder, which are those of the others too, but for these.
struct TensorNames {
  struct Rename {
    std::string_view model, file;
    /// Only in names that have this part too, and have not that one.
    std::string_view within = {}, without = {};

    bool is_for(std::string_view name) const {
      return name.find(within) != name.npos && (without.empty() || name.find(without) == name.npos);
    }
  };
  /// A layer that is one tensor in files and several modules, by endings of their names: its rows
  /// are those of the modules, as many of each, in this order.
  struct Packed {
    std::string_view layer;
    std::span<const std::string_view> modules;
  };
  /// One of the modules of a layer.
  struct Place {
    std::string layer;
    Index index = 0, count = 1;
  };

  /// Beginnings that a file may have before the names, such as "bert."; the first one is written.
  std::span<const std::string_view> prefixes = {};
  /// Parts of names, tried in this order.
  std::span<const Rename> renames = {};
  /// Those of modules; empty where these have the names of files.
  std::span<const Rename> module_renames = {};
  /// Empty where each tensor of a file is that of one module.
  std::span<const Packed> packed = {};

  std::string model_name(std::string file_name) const;
  /// Without a prefix.
  std::string file_name(std::string model_name) const;
  /// Name of a layer in the file, whose tensors have their own names behind its name.
  std::string file_layer(const std::string& layer) const;

  /// The name of a tensor of an adapter, made for the class of `transformers` or for one whose
  /// modules have the names of files.
  std::string model_name_of_module(const std::string& name) const;
  /// Without a prefix.
  std::string module_name(std::string model_name) const;
  std::string module_layer(const std::string& layer) const;
  /// Modules that a layer consists of: itself, if it is not packed.
  std::vector<std::string> modules_of(const std::string& layer) const;
  /// The layer that a module is part of: itself, if that is not packed.
  Place place_of(const std::string& module) const;
};

}  // namespace longformer::models
