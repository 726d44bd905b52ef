// Objects loaded from a folder, for Python.
#pragma once

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.h"
#include "fetched.h"
#include "interruptible.h"
#include "keywords.h"
#include "longformer/checkpoint.h"

namespace longformer {

/// Any number of Python threads may call it at a time, without the GIL; the library orders and
/// batches what they ask for. What it has to say of weights becomes warnings.
template <typename Object>
class Loaded {
 public:
  using Note = std::function<void(const std::string&)>;

  /// Holds what `make` makes of a collector of notes.
  template <typename Make>
  requires std::is_invocable_v<Make, Note>
  explicit Loaded(Make&& make) : object_(without_gil([&] { return make(notes_.collector()); })) {
    Notes::warn(notes_.take());
  }
  /// Loads a folder.
  Loaded(const std::string& folder, LoadOptions options)
      : Loaded([&](const Note& note) {
          options.note = note;
          return Object::load(fetch_model(folder), options);
        }) {}

  const Object& object() const { return object_; }

  template <typename Work>
  auto call(Work&& work) {
    auto result = without_gil([&] { return work(object_); });
    Notes::warn(notes_.take());
    return result;
  }

 private:
  Notes notes_;
  Object object_;
};

}  // namespace longformer
