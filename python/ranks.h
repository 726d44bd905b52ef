// Processes that a Python object joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings.h"
#include "interruptible.h"
#include "longformer/ranks.h"

namespace longformer {

/// `rank`, `count`, and `sum`, which adds up a NumPy array in place; for one document over ranks
/// also `max` and `exchange`.
class PythonRanks : public Ranks {
 public:
  explicit PythonRanks(nb::object ranks)
      : ranks_(std::move(ranks)), rank_(number("rank")), count_(number("count")) {
    if (count_ < 1 || rank_ < 0 || rank_ >= count_) {
      throw nb::value_error("ranks: expected a rank from 0 on below the count");
    }
  }

  int rank() const override { return rank_; }
  int count() const override { return count_; }
  void sum(std::span<double> values) const override { call("sum", values); }
  void sum(std::span<float> values) const override { call("sum", values); }
  void max(std::span<float> values) const override {
    if (has("max"))
      call("max", values);
    else
      Ranks::max(values);
  }
  void exchange(const RankNeighbours& rows) const override {
    if (has("exchange")) {
      call("exchange", bytes(rows.to_before), bytes(rows.to_behind), bytes(rows.from_before),
           bytes(rows.from_behind));
    } else {
      Ranks::exchange(rows);
    }
  }

 private:
  int number(const char* name) const { return nb::cast<int>(ranks_.attr(name)); }
  bool has(const char* name) const {
    const nb::gil_scoped_acquire acquire;
    return nb::hasattr(ranks_, name);
  }

  /// The library only reads what is const.
  static std::span<std::uint8_t> bytes(std::span<const std::byte> rows) {
    return {reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(rows.data())), rows.size()};
  }

  template <typename Number>
  static nb::object array_over(std::span<Number> values) {
    const nb::ndarray<nb::numpy, Number, nb::ndim<1>> array(values.data(), {values.size()},
                                                            nb::handle());
    return nb::cast(array, nb::rv_policy::reference);
  }

  template <typename... Numbers>
  void call(const char* method, std::span<Numbers>... values) const {
    const nb::gil_scoped_acquire acquire;
    try {
      ranks_.attr(method)(array_over(values)...);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) {
        error.restore();
        throw Interrupted();
      }
      const auto name = nb::cast<std::string>(error.type().attr("__name__"));
      throw std::runtime_error(name + ": " + nb::cast<std::string>(nb::str(error.value())));
    }
  }

  nb::object ranks_;
  int rank_, count_;
};

}  // namespace longformer
