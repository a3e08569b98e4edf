#pragma once

/// The parts of the module addnorm._core. Its functions are called by the package's own alone,
/// which have checked what no array is.

#include <pybind11/pybind11.h>

#include <tuple>

namespace addnorm::python {

namespace py = pybind11;

/// addnorm.Norm: kind, ε, where ε goes, variance, γ's form, output scale; choices as the numbers of
/// addnorm.h.
using NormFields = std::tuple<int, double, int, int, int, double>;

void add_norms(py::module_& m);
void add_lab(py::module_& m);

}  // namespace addnorm::python
