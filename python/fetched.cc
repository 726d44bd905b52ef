#include "fetched.h"

#include <optional>
#include <string>
#include <utility>

#include "interruptible.h"
#include "longformer/checkpoint.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// Calls longformer_cpp._hub.NAME, which words what is told.
template <typename... Arguments>
void call_package(const char* name, Arguments&&... arguments) {
  const nb::gil_scoped_acquire acquire;
  const nb::object function = nb::module_::import_("longformer_cpp._hub").attr(name);
  call_python(function, std::forward<Arguments>(arguments)...);
}

void tell_plan(const PullPlan& plan) {
  call_package("tell_plan", plan.repository, plan.revision, plan.commit, plan.endpoint, plan.cache,
               plan.files, plan.missing_files, plan.missing_bytes);
}

PullOptions telling() {
  return {.plan = tell_plan, .progress = {}, .note = [](const std::string& text) {
            call_package("tell", text);
          }};
}

std::string pull(const std::string& name, const std::optional<nb::object>& progress) {
  PullOptions options = telling();
  if (progress) {
    options.progress = [&progress](const PullProgress& now) {
      call_python(*progress, now.files_done, now.files_total, now.bytes_done, now.bytes_total);
    };
  }
  return without_gil([&] { return pull_model(name, options).folder; });
}

}  // namespace

std::string fetch_model(const std::string& name) { return fetched_model(name, telling()); }

std::string fetch_adapter(const std::string& name) {
  if (is_to_be_fetched(name)) fetched_model(name, telling());
  return find_adapter(name);
}

std::string model_folder(const std::string& name) {
  return without_gil([&] { return fetch_model(name); });
}

void bind_hub(nb::module_& module) { module.def("pull", &pull, "name"_a, "progress"_a.none()); }

}  // namespace longformer
