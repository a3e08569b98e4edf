#pragma once

/// The parts of the module addnorm._core. Only the package itself calls its functions, and it has
/// already checked the arguments that are not arrays.

#include <pybind11/pybind11.h>

#include <string>
#include <tuple>

#include "addnorm/norm.h"

namespace addnorm::python {

namespace py = pybind11;

/// addnorm.Norm: kind, ε, where ε goes, variance, γ's form, output scale.
using NormFields = std::tuple<std::string, double, std::string, std::string, std::string, double>;
/// Throws an Error for an unknown name, and for a kind that does not normalize rows.
NormOptions norm_options(const NormFields& norm);

void add_norms(py::module_& m);
void add_lab(py::module_& m);
void add_doctor(py::module_& m);
void add_program(py::module_& m);

}  // namespace addnorm::python
