//! creel
